"""Needs: what a block asks of a machine, `data-needs="cuda: why"` or `data-needs="torch>=2.14: why"`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement


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
                Requirement(part)
            except InvalidRequirement:
                raise ValueError(f"'{part}' is neither cuda nor a package such as torch>=2.14") from None
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
            else:
                requirement = Requirement(part)
                tests.append(
                    f"__import__('packaging.specifiers').specifiers.SpecifierSet({str(requirement.specifier)!r})"
                    f".contains(__import__('importlib.metadata').metadata.version({requirement.name!r})"
                    ".partition('+')[0], prereleases=True)"
                )
        return " and ".join(tests)
