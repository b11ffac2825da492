"""The dependency structures of well-known workflows, at any size.

A structure is drawn in a `Sketch`: `add` appends tasks of one category to the file and returns their numbers, `connect`
makes children wait for parents. Both take arrays, so a structure of a million tasks takes a dozen calls. Each function
documents which real workflow it follows and where it deviates. They were compared with the 33 workflows of GLUME's
authors and the instances of WfCommons (tasks per category, levels, how many tasks each waits for and unlocks), and for
AIRSN, Inspiral and SDSS, which are not among them, with the PRIO paper. The command line's help prints these
docstrings.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tonnage.errors import InputError

__all__ = [
    "MOST_TASKS",
    "Sketch",
    "airsn",
    "cybershake",
    "epigenomics",
    "fork_join",
    "ligo",
    "montage",
    "random_layered",
    "sdss",
    "sipht",
]

_Numbers = NDArray[np.int64]

MOST_TASKS = 10_000_000
"""More would not fit into the memory of an ordinary machine."""

_HANDLE = 21
"""AIRSN: "about twenty jobs"; with 21 a width of 250 gives the paper's 773 and its bottleneck the priority 753."""
_SCAN_LINES = 12
"""SDSS: two strips of six camera columns each make up a stripe of the sky."""
_MOST_PARENTS = 100


@dataclass
class Sketch:
    """A workflow under construction: the number of tasks per category, in file order, and the dependencies."""

    blocks: list[tuple[str, int]] = field(default_factory=list)
    parents: list[_Numbers] = field(default_factory=list)
    children: list[_Numbers] = field(default_factory=list)
    size: int = 0

    def add(self, category: str, count: int) -> _Numbers:
        """Append tasks of one category and return their numbers."""
        numbers = np.arange(self.size, self.size + count)
        self.blocks.append((category, count))
        self.size += count
        return numbers

    def connect(self, parents: ArrayLike, children: ArrayLike) -> None:
        """Make each child wait for the parent at the same index; a single task on one side pairs with all others."""
        first, second = np.broadcast_arrays(np.asarray(parents), np.asarray(children))
        self.parents.append(first)
        self.children.append(second)

    def edges(self) -> tuple[_Numbers, _Numbers]:
        """Return the dependencies as parents and children."""
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *self.parents]), np.concatenate([nothing, *self.children])


def airsn(tasks: int, _rng: np.random.Generator, *, width: int | None = None, fringes_first: bool = False) -> Sketch:
    """AIRSN: a chain (the handle), a fork in which every task also waits for its own fringe, a join, a fork, a join.

    Follows the PRIO paper: 3 w + 23 tasks for a width w. The paper does not say whether the handle or the fringes
    come first in its file. First in, first out depends on that, so both are available.
    """
    width = max(1, round((tasks - _HANDLE - 2) / 3)) if width is None else width
    most = (MOST_TASKS - _HANDLE - 2) // 3
    if not 1 <= width <= most:
        raise InputError(f"the width of the umbrella must be 1 to {most:,}, not {width:,}")
    sketch = Sketch()
    if fringes_first:
        fringes, handle = sketch.add("fringe", width), sketch.add("handle", _HANDLE)
    else:
        handle, fringes = sketch.add("handle", _HANDLE), sketch.add("fringe", width)
    first, first_join = sketch.add("cover", width), sketch.add("join", 1)
    second, second_join = sketch.add("cover2", width), sketch.add("join2", 1)
    sketch.connect(handle[:-1], handle[1:])
    sketch.connect(handle[-1], first)
    sketch.connect(fringes, first)
    sketch.connect(first, first_join)
    sketch.connect(first_join, second)
    sketch.connect(second, second_join)
    return sketch


def fork_join(tasks: int, _rng: np.random.Generator, *, stages: int = 1) -> Sketch:
    """Fork-join: a task, many that wait for it, one that waits for all of those; repeated for each further stage."""
    if not 1 <= stages <= (tasks - 1) // 2:
        most = (tasks - 1) // 2
        raise InputError(
            f"{tasks} tasks cannot form {stages} stages of fork and join", hint=f"1 to {most} are possible"
        )
    sketch = Sketch()
    last = sketch.add("fork", 1)
    for share in np.array_split(np.arange(tasks - stages - 1), stages):
        work, join = sketch.add("work", len(share)), sketch.add("join", 1)
        sketch.connect(last, work)
        sketch.connect(work, join)
        last = join
    return sketch


def montage(tasks: int, rng: np.random.Generator) -> Sketch:
    """Montage: reproject images of the sky, fit the differences of overlapping ones, level them, add them up.

    The images lie on a square grid and overlap with up to eight neighbours, so an mProject unlocks three to eight
    mDiffFits; real ones have irregular footprints and more overlaps (GLUME's up to 14, WfCommons' up to 15). If the
    grid has more overlaps than the requested number of tasks allows, a few corners do not overlap. There is one colour:
    the workflows of WfCommons repeat the structure for three and end in mViewer. As in GLUME's, mAdd waits only for
    mImgtbl.
    """
    images = bisect_left(range(tasks), tasks, lo=2, key=lambda count: 2 * count + len(_overlaps(count)[0]) + 6)
    first, second, corner = _overlaps(images)
    corners = np.flatnonzero(corner)
    excess = min(2 * images + len(first) + 6 - tasks, len(corners))
    kept = np.delete(np.arange(len(first)), rng.choice(corners, excess, replace=False))

    sketch = Sketch()
    project, difference = sketch.add("mProject", images), sketch.add("mDiffFit", len(kept))
    concat, model = sketch.add("mConcatFit", 1), sketch.add("mBgModel", 1)
    background = sketch.add("mBackground", images)
    ending = [sketch.add(category, 1) for category in ("mImgtbl", "mAdd", "mShrink", "mJPEG")]
    sketch.connect(project[first[kept]], difference)
    sketch.connect(project[second[kept]], difference)
    sketch.connect(difference, concat)
    sketch.connect(concat, model)
    sketch.connect(model, background)
    sketch.connect(project, background)
    sketch.connect(background, ending[0])
    for parent, child in pairwise(ending):
        sketch.connect(parent, child)
    return sketch


def _overlaps(images: int) -> tuple[_Numbers, _Numbers, NDArray[np.bool_]]:
    """Return the pairs of images that overlap on the squarest grid, row by row, and whether only at a corner."""
    columns = math.isqrt(images - 1) + 1
    place = np.arange(images)
    not_first, not_last = place % columns > 0, place % columns < columns - 1
    everywhere = np.ones(images, dtype=np.bool_)
    steps = [(1, not_last), (columns - 1, not_first), (columns, everywhere), (columns + 1, not_last)]
    pairs = [place[allowed & (place + step < images)] for step, allowed in steps]
    first = np.concatenate(pairs)
    second = np.concatenate([start + step for start, (step, _) in zip(pairs, steps, strict=True)])
    corner = np.repeat([False, True, False, True], [len(start) for start in pairs])
    order = np.lexsort((second, first))
    return first[order], second[order], corner[order]


def ligo(tasks: int, rng: np.random.Generator, *, overlap: bool = False) -> Sketch:
    """LIGO Inspiral: groups of template banks, matched filters, a coincidence test that unlocks a second round.

    There are about a dozen chains per group, as in the Pegasus gallery's Inspiral_1000, where the second round has a
    tenth more tasks than the first (here the same number) and a few tasks belong to two groups (here the groups are
    separate). The DAG in the PRIO paper has a non-bipartite component of over 1,000 jobs. If the groups overlap, a
    final coincidence test also reads the first filters at the borders of its neighbours, and everything from the first
    filters on is one such component.
    """
    groups = max(1, round(tasks / 48))
    sizes = _shares(max(groups, round((tasks - 2 * groups) / 4)), groups, rng)
    group = np.repeat(np.arange(groups), sizes)
    sketch = Sketch()
    bank, inspiral = sketch.add("TmpltBank", len(group)), sketch.add("Inspiral", len(group))
    thinca = sketch.add("Thinca", groups)
    trigger, inspiral2 = sketch.add("TrigBank", len(group)), sketch.add("Inspiral2", len(group))
    thinca2 = sketch.add("Thinca2", groups)
    sketch.connect(bank, inspiral)
    sketch.connect(inspiral, thinca[group])
    sketch.connect(thinca[group], trigger)
    sketch.connect(trigger, inspiral2)
    sketch.connect(inspiral2, thinca2[group])
    if overlap:
        ends = np.cumsum(sizes)[:-1]
        sketch.connect(inspiral[ends - 1], thinca2[1:])
        sketch.connect(inspiral[ends], thinca2[:-1])
    return sketch


def epigenomics(tasks: int, rng: np.random.Generator) -> Sketch:
    """Epigenomics: split each lane of a sequencer, run every piece through four steps, merge, index, pile up.

    There are about 40 pieces per lane, which vary as in the instance of WfCommons (17 to 56 in seven lanes); GLUME's
    workflows have the same number in every lane (5, 6 or 20). With one lane there are still two merges.
    """
    lanes = max(1, round(tasks / 160))
    sizes = _shares(max(lanes, round((tasks - 2 * lanes - 3) / 4)), lanes, rng)
    lane = np.repeat(np.arange(lanes), sizes)
    sketch = Sketch()
    split = sketch.add("fastqSplit", lanes)
    steps = [sketch.add(name, len(lane)) for name in ("filterContams", "sol2sanger", "fastq2bfq", "map")]
    merge, merge_all = sketch.add("mapMerge", lanes), sketch.add("mapMerge", 1)
    index, pileup = sketch.add("maqIndex", 1), sketch.add("pileup", 1)
    sketch.connect(split[lane], steps[0])
    for parent, child in pairwise(steps):
        sketch.connect(parent, child)
    sketch.connect(steps[-1], merge[lane])
    for parent, child in pairwise((merge, merge_all, index, pileup)):
        sketch.connect(parent, child)
    return sketch


def cybershake(tasks: int, rng: np.random.Generator) -> Sketch:
    """CyberShake: extract ground motions, synthesise seismograms from each, calculate their peaks, zip both.

    As in GLUME's, every synthesis reads one extract, and each extract is read by about 60 of them.
    """
    extracts = max(1, round(tasks * 0.008))
    extracts += (tasks - extracts) % 2  # apart from the two joins, the rest are pairs of a synthesis and its peak
    sizes = _shares((tasks - 2 - extracts) // 2, extracts, rng)
    sketch = Sketch()
    extract = sketch.add("ExtractSGT", extracts)
    synthesis, peak = sketch.add("SeismogramSynthesis", sizes.sum()), sketch.add("PeakValCalcOkaya", sizes.sum())
    zip_seismograms, zip_peaks = sketch.add("ZipSeis", 1), sketch.add("ZipPSA", 1)
    sketch.connect(np.repeat(extract, sizes), synthesis)
    sketch.connect(synthesis, zip_seismograms)
    sketch.connect(synthesis, peak)
    sketch.connect(peak, zip_peaks)
    return sketch


def sipht(tasks: int, rng: np.random.Generator) -> Sketch:
    """SIPHT: for each replicon of a bacterium, four searches and many Patsers lead to one annotation.

    The structure is that of GLUME's SIPHT: twelve tasks and about 18 Patsers per replicon; replicons are independent.
    """
    replicons = max(1, round(tasks / 30))
    sizes = _shares(tasks - 12 * replicons, replicons, rng)
    sketch = Sketch()
    patser, patser_concate = sketch.add("Patser", sizes.sum()), sketch.add("Patser_concate", replicons)
    searches = [sketch.add(name, replicons) for name in ("Transterm", "Findterm", "RNAMotif", "Blast")]
    srna, parse = sketch.add("SRNA", replicons), sketch.add("FFN_Parse", replicons)
    blasts = [sketch.add(f"Blast_{name}", replicons) for name in ("candidate", "QRNA", "paralogues", "synteny")]
    annotate = sketch.add("SRNA_annotate", replicons)
    sketch.connect(patser, np.repeat(patser_concate, sizes))
    for search in searches:
        sketch.connect(search, srna)
    for child in (parse, *blasts, annotate):
        sketch.connect(srna, child)
    sketch.connect(parse, blasts[-1])
    for parent in (patser_concate, *blasts):
        sketch.connect(parent, annotate)
    return sketch


def sdss(tasks: int, _rng: np.random.Generator) -> Sketch:
    """SDSS cluster finding: fields along the twelve scan lines of a stripe, each searched with its neighbours.

    The steps are those of Annis et al. (2002): prepare a field, find bright red galaxies, evaluate them as centres of
    clusters with the neighbouring fields, keep the likeliest of a neighbourhood, collect the catalogue. A brgSearch is
    read by three bcgSearches and shares two with either neighbour, so a scan line is one bipartite component, as in the
    PRIO paper ("over 1,500 jobs whose each source has three children some of which are shared"): 2,000 jobs at the
    default size. How the paper's 48,013 jobs divide into steps is not published; here there are 12 lines of 999 fields,
    a border field at either end of each, a catalogue per line and a merge of those.
    """
    fields = max(_SCAN_LINES, round((tasks - 5 * _SCAN_LINES - 1) / 4))
    lengths = np.array([len(part) for part in np.array_split(np.arange(fields), _SCAN_LINES)])
    line = np.repeat(np.arange(_SCAN_LINES), lengths)
    searched_line = np.repeat(np.arange(_SCAN_LINES), lengths + 2)
    sketch = Sketch()
    prepare, bright = sketch.add("fieldPrep", fields), sketch.add("brgSearch", fields)
    search = sketch.add("bcgSearch", len(searched_line))
    coalesce = sketch.add("bcgCoalesce", len(searched_line))
    catalogue, merge = sketch.add("getCatalog", _SCAN_LINES), sketch.add("mergeCatalogs", 1)
    sketch.connect(prepare, bright)
    for neighbour in range(3):
        sketch.connect(bright, search[np.arange(fields) + 2 * line + neighbour])
    beside = np.flatnonzero(searched_line[:-1] == searched_line[1:])
    sketch.connect(search, coalesce)
    sketch.connect(search[beside], coalesce[beside + 1])
    sketch.connect(search[beside + 1], coalesce[beside])
    sketch.connect(coalesce, catalogue[searched_line])
    sketch.connect(catalogue, merge)
    return sketch


def random_layered(tasks: int, rng: np.random.Generator, *, layers: int = 10, parents: float = 3.0) -> Sketch:
    """Random layers: every task waits for at least one task drawn at random from the layer above.

    A task draws one parent and a Poisson number more; one that is drawn twice counts once, so tasks below a narrow
    layer wait for fewer, and one that is not drawn has no child. The number of dependencies grows linearly with the
    number of tasks, not quadratically as with a fixed density.
    """
    if not 1 <= layers <= tasks:
        raise InputError(f"{tasks} tasks cannot form {layers} layers", hint=f"1 to {tasks} are possible")
    if not 1 <= parents <= _MOST_PARENTS:
        raise InputError(f"a task can wait for 1 to {_MOST_PARENTS} others on average, not {parents:g}")
    sketch = Sketch()
    above: _Numbers | None = None
    for number, size in enumerate(_shares(tasks, layers, rng)):
        layer = sketch.add(("prepare", "analyse", "combine")[number % 3], size)
        if above is not None:
            drawn = 1 + rng.poisson(parents - 1, size)
            sketch.connect(rng.choice(above, drawn.sum()), np.repeat(layer, drawn))
        above = layer
    return sketch


def _shares(total: int, parts: int, rng: np.random.Generator) -> _Numbers:
    """Divide `total` at random into `parts` parts, none of which is empty."""
    return 1 + rng.multinomial(total - parts, np.full(parts, 1 / parts))
