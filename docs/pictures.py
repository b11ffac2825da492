"""Draw the terminal pictures of the documentation again: python docs/pictures.py."""

from pathlib import Path

from rich.console import Console

from tonnage.cli import show
from tonnage.workflow import read

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Draw `tonnage show` of the example workflow."""
    workflow = read(HERE.parent / "examples" / "kmers" / "kmers.dag")
    console = Console(record=True, width=76, highlight=False, file=Path("/dev/null").open("w"))
    console.print("$ tonnage show examples/kmers/kmers.dag\n", style="bold")
    show.draw(workflow, console)
    console.save_svg(str(HERE / "images" / "show.svg"), title="tonnage show")


if __name__ == "__main__":
    main()
