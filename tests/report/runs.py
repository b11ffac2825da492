"""A small workflow of real processes: some need more memory than they get at first."""

from pathlib import Path

from tests.run.cli_runs import Place

__all__ = ["made_place", "run_it"]

_TASK = "python3 -c 'import time; x = bytearray({size}000000); time.sleep(0.05)' {inputs} && echo done > {output}"


def made_place(folder: Path) -> Place:
    """Write the workflow into a folder of its own: four tasks side by side, then one."""
    place = Place(folder / "w")
    place.folder.mkdir(parents=True)
    text = "CATEGORY=split\n"
    for number in range(4):
        size = 60 if number == 3 else 10 + number
        text += f"part{number}:\n\t{_TASK.format(size=size, inputs='', output=f'part{number}')}\n"
    parts = " ".join(f"part{number}" for number in range(4))
    join = _TASK.format(size=20, inputs=parts, output="whole")
    place.write("w.makeflow", f"{text}CATEGORY=join\nwhole: {parts}\n\t{join}\n")
    return place


def run_it(place: Place) -> dict[str, object]:
    """Run the workflow on a machine where a fair share is too little for one task; return what the run printed."""
    said = place.call("run", "w.makeflow", "--machine", "cores=2,memory=120MB,disk=1GB", "--quiet", "--json")
    assert said.status == 0, said.stderr
    return said.facts
