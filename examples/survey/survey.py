"""Write a workflow of real processes that looks for variable stars in a made-up survey of the sky.

python3 survey.py FOLDER [--fields N] [--speed X] [--seed S]

FOLDER gets survey.mf, a Makeflow, and work.py, the program of every task. Per field of the sky: 5 images are fetched
and calibrated, each is searched twice, 3 candidates are fitted, and all is merged and plotted; a report ends it. The
memory and the time of each task are drawn here, once, from the long-tailed distributions that are written below; the
tasks do not tell anybody in advance. Only the standard library is used.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
IMAGES, SEARCHES, FITS = 5, 2, 3  # of a field, of an image, of a field
LARGEST = 600  # megabytes
SHORTEST, LONGEST = 0.05, 2.0  # seconds


@dataclass(frozen=True)
class Step:
    """A task: what it needs, what it reads, and how large its output is."""

    category: str
    output: str
    megabytes: float
    seconds: float
    kilobytes: float = 1
    inputs: tuple[str, ...] = ()

    def rule(self, speed: float) -> str:
        """Return the task as a rule of a Makeflow."""
        seconds = min(max(self.seconds, SHORTEST), LONGEST) / speed
        megabytes = min(max(self.megabytes, 5), LARGEST)
        words = [f"{seconds:.3f}", f"{megabytes:.0f}", self.output, f"{max(self.kilobytes, 1):.0f}", *self.inputs]
        needs = " ".join(("work.py", *self.inputs))
        return f"CATEGORY={self.category}\n{self.output}: {needs}\n\t$(PYTHON) work.py {' '.join(words)}\n"


def steps(fields: int, draw: Random) -> Iterator[Step]:
    """Yield the tasks of a survey."""

    def around(median: float, spread: float) -> float:
        return draw.lognormvariate(0, spread) * median

    plots = []
    for field in range(fields):
        found = []
        for number in range(IMAGES):
            name = f"{field:02}.{number}"
            size = around(400, 0.8)  # kilobytes
            yield Step("fetch", f"{name}.raw", around(12, 0.2), around(0.25, 0.8), size)
            # What calibration and its time take follows from the size of the image, though not exactly.
            per_image = (10 + 0.25 * size) * around(1, 0.1), around(0.08, 0.3) + 0.0004 * size
            yield Step("calibrate", f"{name}.cal", *per_image, size / 2, (f"{name}.raw",))
            for band in "br"[:SEARCHES]:
                # One search in six meets a crowded field, which nothing tells before.
                megabytes = around(380, 0.25) if draw.random() < 1 / 6 else around(50, 0.25)
                output = f"{name}.{band}"
                yield Step("search", output, megabytes, around(0.3, 0.7), around(20, 0.5), (f"{name}.cal",))
                found.append(output)
        fits = []
        for number in range(FITS):
            some = tuple(found[number::FITS])
            fits.append(f"{field:02}.fit{number}")
            yield Step("fit", fits[-1], around(70, 0.6), around(0.35, 0.8), 5, some)
        yield Step("merge", f"{field:02}.all", around(90, 0.15), around(0.2, 0.3), 20, tuple(fits))
        plots.append(f"{field:02}.plot")
        yield Step("plot", plots[-1], around(120, 0.05), around(0.15, 0.3), 50, (f"{field:02}.all",))
    yield Step("report", "report", 30, 0.2, 100, tuple(plots))


def make(folder: Path, *, fields: int = 10, speed: float = 1.0, seed: int = 1) -> Path:
    """Write the workflow and its program into a folder; return the workflow's path."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "work.py", folder)
    rules = [step.rule(speed) for step in steps(fields, Random(seed))]
    path = folder / "survey.mf"
    path.write_text("\n".join((f"PYTHON={sys.executable} -IS", "", *rules)))
    return path


def main() -> None:
    """Write a survey as the command line says."""
    parser = argparse.ArgumentParser(description="Write a workflow of real processes: survey.mf and work.py.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fields", type=int, default=10, help="fields of the sky, of 25 tasks each (10)")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times faster tasks are (1)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(make(given.folder, fields=given.fields, speed=given.speed, seed=given.seed))


if __name__ == "__main__":
    main()
