"""Needs: what a block asks of a machine, `data-needs="cuda: why"` or `data-needs="torch>=2.14: why"`."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement

# A misspelt name would skip its block for ever. Whoever needs another package adds it here.
PACKAGES = ("cuda", "lightning", "matplotlib", "numpy", "tensorboard", "torch", "torchvision", "transformers")
RELEASES = (">=", "<=", "<", ">", "==", "!=")
RELEASE = re.compile(r"\d+\.\d+")  # what a block needs came with a minor release


@dataclass(frozen=True)
class Needs:
    """`asked` are requirements (`cuda`, or a package with or without versions); `reason` is for the reader."""

    asked: tuple[str, ...]
    reason: str

    @classmethod
    def parse(cls, text: str) -> Needs:
        """Raises ValueError, with what to type, where the text says no requirement or no reason."""
        what, colon, reason = text.partition(": ")
        asked = tuple(part.strip() for part in what.rstrip(":").split(",") if part.strip())
        if not asked or not colon or not reason.strip():
            raise ValueError('say what is needed and why: data-needs="cuda: the kernel is a CUDA one"')
        for part in asked:
            try:
                requirement = Requirement(part)
            except InvalidRequirement:
                raise ValueError(f"'{part}' is neither cuda nor a package such as torch>=2.14") from None
            if requirement.name not in PACKAGES:
                near = difflib.get_close_matches(requirement.name, PACKAGES, n=1)
                hint = f"did you mean {near[0]}?" if near else f"pages may ask for {', '.join(PACKAGES)}"
                raise ValueError(f"'{requirement.name}' would never be met; {hint}")
            if requirement.specifier and requirement.name != "torch":
                raise ValueError(f"name {requirement.name} without a version; only torch's is asked for")
            if any(operator not in RELEASES or not RELEASE.fullmatch(version) for operator, version in _asked(part)):
                raise ValueError(f"'{part}' is no plain comparison of releases; write torch>=2.14")
        return cls(asked, reason.strip())

    def missing(self, device: str) -> str:
        """What this run lacks; empty where everything is there. A need for CUDA is met by a run on CUDA."""
        for part in self.asked:
            if part == "cuda":
                if not device.startswith("cuda"):
                    return "cuda"
                continue
            requirement = Requirement(part)
            try:
                version = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                return part
            if not requirement.specifier.contains(version.partition("+")[0], prereleases=True):
                return part
        return ""

    def condition(self) -> str:
        """The same question as a Python expression, for the script edition."""
        tests = []
        for part in self.asked:
            if part == "cuda":
                tests.append("__import__('torch').cuda.is_available()")
            elif part.startswith("torch"):
                here = "tuple(map(int, __import__('torch').__version__.split('.')[:2]))"
                tests += [
                    f"{here} {operator} {tuple(map(int, version.split('.')))}" for operator, version in _asked(part)
                ]
            else:
                tests.append(f"__import__('importlib.util').util.find_spec({part.replace('-', '_')!r})")
        return " and ".join(tests)


def _asked(part: str) -> list[tuple[str, str]]:
    return [(spec.operator, spec.version) for spec in Requirement(part).specifier]
