# SPDX-License-Identifier: 0BSD
"""How the page looks: light, dark, on paper and on a phone.

Contrast against the page is 4.5 or more for text, 3 or more for marks.
"""

CSS = """
:root { color-scheme: light; --page: #ffffff; --surface: #f5f7f8;
  --hair: #d9dee3; --ink: #1b1f24; --quiet: #57606a; --line: #79828c;
  --accent: #00704f; --bar: #0072b2; --error: #b3261e; --warning: #8a4b00; }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --page: #14171c; --surface: #1b1f26;
    --hair: #2f3640; --ink: #e4e7eb; --quiet: #a3acb8; --line: #7b8593;
    --accent: #3cc79b; --bar: #56b4e9; --error: #ff9b8e;
    --warning: #f0b35a; } }
* { box-sizing: border-box; }
html { background: var(--page); color: var(--ink);
  font: 16px/1.55 Inter, system-ui, sans-serif; }
body { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.15; letter-spacing: -.02em;
  margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.4rem; line-height: 1.2; margin: 3rem 0 .6rem;
  padding-top: 1.2rem; border-top: 1px solid var(--hair); }
main > :first-child h2 { margin-top: 1.6rem; border: 0; padding-top: 0; }
.examined h2 { font-size: 1.05rem; margin-top: 1.6rem; border: 0;
  padding-top: 0; }
h3 { font-size: 1.05rem; line-height: 1.3; margin: 1.6rem 0 .4rem; }
p, ul { max-width: 44rem; margin: .5rem 0; overflow-wrap: anywhere; }
a { color: var(--accent); }
a:focus-visible, .scroll:focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px; }
code, pre, td, .path { font-family: "JetBrains Mono", ui-monospace,
  monospace; font-variant-ligatures: none; }
code, .path { font-size: .875em; overflow-wrap: anywhere; }
nav ul { list-style: none; padding: 0; max-width: none; margin: 2rem 0 0; }
nav li { display: grid; grid-template-columns: 11rem 7rem 1fr; gap: 0 1rem;
  padding: .35rem 0; border-bottom: 1px solid var(--hair); }
nav li:first-child { border-top: 1px solid var(--hair); }
nav li > :last-child { overflow-wrap: anywhere;
  font-variant-numeric: tabular-nums; }
.verdict { font-size: 1.15rem; font-weight: 650; }
.level { font-weight: 700; }
.level.error { color: var(--error); } .level.warning { color: var(--warning); }
.level.healthy, .level.ok { color: var(--accent); }
.level { white-space: nowrap; } .verdict .level { white-space: normal; }
.sign { display: inline-block; vertical-align: -.14em; margin-right: .15em;
  color: inherit; stroke: var(--page); stroke-width: 1.8; fill: none; }
.sign circle, .sign .body { fill: currentColor; stroke: none; }
 .level.note { color: var(--quiet); }
.findings { list-style: none; padding: 0; max-width: none; margin: 1.2rem 0; }
.findings li { border-left: 3px solid var(--line); padding: .1rem 0 .1rem 1rem;
  margin: 1.2rem 0; break-inside: avoid; }
.findings li.error { border-color: var(--error); border-left-width: 6px; }
.findings li.warning { border-color: var(--warning); }
.findings h3 { margin: 0; } .findings p { margin: .3rem 0; }
.quiet, caption, figcaption { color: var(--quiet); font-size: .9rem; }
dl { margin: .5rem 0; } dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
dl.rows { max-width: 54rem; }
dl.rows > div { display: grid; grid-template-columns: 9rem 1fr;
  gap: .1rem 1rem; padding: .12rem 0; }
dl.facts { display: grid; gap: .8rem 1.5rem; margin: .8rem 0;
  grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); }
dl.facts dt { font-size: .85rem; }
dl.facts dd { font-size: 1.1rem; font-weight: 600; }
details { margin: .8rem 0; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0;
  max-width: max-content; }
details.how { font-size: .92rem; border-left: 2px solid var(--hair);
  padding-left: .9rem; }
details.how summary { color: var(--accent); font-weight: 400; }
details.how code { color: var(--ink); }
details.how dd { color: var(--quiet); }
details.how dl.rows > div { padding: .3rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; padding-bottom: .4rem; }
th { font-weight: 600; text-align: right; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--hair);
  white-space: nowrap; vertical-align: baseline; line-height: 1.5; }
thead th { vertical-align: bottom; }
td { text-align: right; font-size: .82rem; font-variant-numeric: tabular-nums; }
th:first-child, td.left, th.left { text-align: left; }
tbody th { font: 400 .82rem "JetBrains Mono", ui-monospace, monospace; }
td b { font-family: Inter, system-ui, sans-serif; }
pre { background: var(--surface); padding: .7rem .9rem; border-radius: 4px;
  font-size: .82rem; white-space: pre-wrap; overflow-wrap: anywhere;
  max-width: 44rem; }
figcaption { max-width: 44rem; margin-top: .4rem; }
figure { margin: 1.2rem 0; break-inside: avoid-page; }
svg { display: block; max-width: 100%; height: auto; color: var(--ink); }
svg text { font: 12.5px Inter, system-ui, sans-serif; fill: var(--ink); }
svg .path { font: 12px "JetBrains Mono", ui-monospace, monospace; }
svg .quiet { fill: var(--quiet); }
svg .grid { stroke: var(--hair); } svg .axis { stroke: var(--line); }
svg .limit { stroke: var(--line); stroke-dasharray: 5 4; }
svg .bar { fill: var(--bar); } svg .stem { stroke: var(--bar); }
svg .thin { stroke: var(--bar); opacity: .6; }
svg .batch { fill: var(--page); stroke: var(--bar); stroke-width: 1.5; }
svg .error { fill: var(--error); } svg .warning { fill: var(--warning); }
svg .none { fill: none; stroke: var(--line); stroke-width: 1.5; }
svg text.strong { font-weight: 650; }
.narrow { display: none; }
@media screen and (max-width: 46rem) { .wide { display: none; }
  .narrow { display: block; } h1 { font-size: 1.6rem; }
  body { padding-top: 1.2rem; } h2 { margin-top: 2.2rem; }
  dl.rows > div { grid-template-columns: 6.5rem 1fr; }
  details.how dl.rows > div { grid-template-columns: 1fr; }
  nav li { grid-template-columns: 1fr max-content; }
  nav li > :last-child { grid-column: 1 / -1; }
  tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 8rem;
    max-width: 10rem; position: sticky; left: 0; background: var(--page); } }
@media print { html { font-size: 11.5px; }
  body { max-width: none; padding: 0; } h2 { margin-top: 2rem; }
  h1, h2, h3, summary, caption { break-after: avoid; }
  tr, dl.rows > div, dl.facts, nav { break-inside: avoid; }
  a { color: inherit; text-decoration: none; } .scroll { overflow: visible; }
  th, td { padding-right: .6rem; white-space: normal; }
  tbody th { overflow-wrap: anywhere; } summary { list-style: none; }
  details::details-content { content-visibility: visible; } }
"""
