"""What the tasks of each category use: a table of medians and spreads, and how amounts are drawn from it.

The numbers are for experiments, not for reproduction: those of Montage, LIGO, Epigenomics, CyberShake and SIPHT have
the magnitude reported in profiles of these applications (Juve et al., Characterizing and profiling scientific
workflows, 2013), those of AIRSN, SDSS and the plain structures are invented. Medians do not change with a workflow's
size, and tasks that join many others read them one after the other, so their memory does not grow with the number.
"""

from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from tonnage.workflow.graph import Graph

__all__ = ["PROFILES", "Drawn", "Profile", "draw"]

_MB = 1e6
_DATA_SPREAD = 0.3
"""Spread of file sizes: sigma of their logarithm."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Profile:
    """How the tasks of one category behave; every amount is multiplied by lognormal noise of median 1.

    A task reads `raw` megabytes in addition to what its parents wrote, and writes `output`. Its peak memory is `memory`
    plus `per_input` times what it reads, so for some categories the input size is a good predictor of memory.
    """

    seconds: float
    seconds_spread: float
    memory: float
    memory_spread: float
    per_input: float
    raw: float
    output: float


# category: seconds and spread, memory in MB and spread, memory per byte of input, raw input in MB, output in MB
PROFILES = {
    category: Profile(*numbers)
    for category, numbers in {
        # AIRSN
        "handle": (30.0, 0.10, 200, 0.05, 0.0, 20, 20),
        "fringe": (20.0, 0.20, 100, 0.05, 2.0, 20, 20),
        "cover": (60.0, 0.30, 150, 0.05, 4.0, 0, 20),
        "cover2": (40.0, 0.30, 150, 0.05, 4.0, 0, 10),
        "join2": (90.0, 0.10, 200, 0.05, 0.0, 0, 100),
        # plain structures ("join" also in AIRSN)
        "fork": (30.0, 0.10, 100, 0.05, 1.0, 500, 10),
        "work": (120.0, 0.50, 250, 0.10, 10.0, 20, 5),
        "join": (60.0, 0.10, 200, 0.05, 0.0, 0, 50),
        "prepare": (20.0, 0.30, 100, 0.10, 1.0, 50, 30),
        "analyse": (300.0, 0.60, 500, 0.20, 8.0, 0, 10),
        "combine": (60.0, 0.30, 200, 0.10, 4.0, 0, 40),
        # Montage
        "mProject": (1.73, 0.05, 4, 0.02, 1.9, 4.2, 8.3),
        "mDiffFit": (0.66, 0.30, 4, 0.05, 0.1, 0, 0.3),
        "mConcatFit": (143.0, 0.05, 8, 0.02, 0.0, 0, 1.3),
        "mBgModel": (384.0, 0.05, 13, 0.02, 0.5, 0, 0.1),
        "mBackground": (1.72, 0.20, 4, 0.05, 1.5, 0, 8.3),
        "mImgtbl": (2.8, 0.05, 8, 0.02, 0.0, 0, 0.4),
        "mAdd": (282.0, 0.10, 16, 0.05, 0.0, 0, 173),
        "mShrink": (66.0, 0.10, 5, 0.05, 0.0, 0, 7),
        "mJPEG": (0.64, 0.10, 4, 0.05, 0.0, 0, 0.3),
        # LIGO Inspiral
        "TmpltBank": (18.0, 0.03, 400, 0.01, 0.0, 31, 1.0),
        "Inspiral": (460.0, 0.60, 220, 0.10, 10.0, 31, 0.3),
        "Thinca": (5.4, 0.05, 2.6, 0.20, 0.0, 0, 0.03),
        "TrigBank": (5.1, 0.05, 2.0, 0.05, 0.0, 0, 0.01),
        "Inspiral2": (460.0, 0.60, 220, 0.10, 10.0, 31, 0.3),
        "Thinca2": (5.4, 0.05, 2.6, 0.20, 0.0, 0, 0.03),
        # Epigenomics
        "fastqSplit": (34.0, 0.30, 4.3, 0.05, 0.0, 351, 8),
        "filterContams": (2.5, 0.40, 6.1, 0.05, 0.0, 0, 6),
        "sol2sanger": (0.5, 0.30, 3.8, 0.05, 0.0, 0, 4),
        "fastq2bfq": (1.4, 0.30, 4.0, 0.05, 0.0, 0, 1),
        "map": (202.0, 0.40, 160, 0.05, 36.0, 0, 1),
        "mapMerge": (11.0, 0.30, 5.0, 0.10, 0.0, 0, 40),
        "maqIndex": (44.0, 0.20, 214, 0.05, 0.0, 0, 100),
        "pileup": (56.0, 0.20, 170, 0.05, 0.0, 0, 80),
        # CyberShake
        "ExtractSGT": (111.0, 0.60, 21, 0.05, 0.0, 20_000, 230),
        "SeismogramSynthesis": (79.0, 0.50, 50, 0.10, 1.5, 280, 0.02),
        "PeakValCalcOkaya": (0.6, 0.60, 3.1, 0.01, 0.0, 0, 0.001),
        "ZipSeis": (266.0, 0.10, 6.3, 0.03, 0.0, 0, 20),
        "ZipPSA": (196.0, 0.10, 6.2, 0.03, 0.0, 0, 1),
        # SIPHT
        "Patser": (1.0, 0.30, 4.5, 0.05, 0.0, 5.2, 0.1),
        "Patser_concate": (0.1, 0.20, 3.0, 0.05, 0.0, 0, 2),
        "Transterm": (32.0, 0.50, 16, 0.10, 0.0, 5.6, 0.4),
        "Findterm": (595.0, 0.60, 20, 0.10, 7.0, 5.2, 36),
        "RNAMotif": (26.0, 0.30, 4.4, 0.05, 0.0, 5.2, 1.1),
        "Blast": (3311.0, 0.40, 100, 0.20, 90.0, 5.2, 5.3),
        "SRNA": (12.0, 0.50, 20, 0.10, 0.1, 11.7, 3),
        "FFN_Parse": (0.7, 0.20, 5.3, 0.05, 0.0, 4.2, 0.8),
        "Blast_candidate": (0.6, 0.20, 10, 0.10, 2.0, 0.2, 0.01),
        "Blast_QRNA": (441.0, 0.20, 50, 0.10, 40.0, 1.1, 4.2),
        "Blast_paralogues": (0.7, 0.20, 10, 0.10, 2.0, 0.1, 0.7),
        "Blast_synteny": (3.4, 0.20, 15, 0.10, 4.0, 1.4, 1.2),
        "SRNA_annotate": (0.2, 0.50, 6, 0.10, 0.3, 0.6, 0.9),
        # SDSS cluster finding
        "fieldPrep": (30.0, 0.20, 60, 0.05, 0.0, 12, 1.5),
        "brgSearch": (60.0, 0.40, 40, 0.05, 20.0, 0, 0.3),
        "bcgSearch": (180.0, 0.50, 80, 0.05, 150.0, 0, 0.3),
        "bcgCoalesce": (20.0, 0.30, 30, 0.05, 10.0, 0, 0.1),
        "getCatalog": (60.0, 0.10, 50, 0.05, 0.0, 0, 20),
        "mergeCatalogs": (60.0, 0.10, 50, 0.05, 0.0, 0, 240),
    }.items()
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """What each task of a workflow uses: seconds and bytes, one number per task."""

    seconds: list[float]
    memory: list[int]
    disk: list[int]
    read: list[int]


def draw(rng: np.random.Generator, blocks: list[tuple[str, int]], graph: Graph) -> Drawn:
    """Draw what the tasks use; a task reads what its parents wrote, plus the raw data of its category."""
    counts = [count for _, count in blocks]
    rows = np.array([astuple(PROFILES[category]) for category, _ in blocks]).reshape(len(blocks), 7)
    seconds, seconds_spread, memory, memory_spread, per_input, raw, output = np.repeat(rows, counts, axis=0).T
    written = np.round(output * _MB * _noise(rng, _DATA_SPREAD, len(output)))
    read = np.round(raw * _MB * _noise(rng, _DATA_SPREAD, len(raw)))
    read += np.bincount(graph.child, weights=written[graph.edge_parents()], minlength=graph.size)
    peak = (memory * _MB + per_input * read) * _noise(rng, memory_spread, len(memory))
    return Drawn(
        # Rounded to the millisecond, as the formats print it; every task takes some time.
        seconds=np.maximum(0.001, np.round(seconds * _noise(rng, seconds_spread, len(seconds)), 3)).tolist(),
        memory=np.round(peak).astype(np.int64).tolist(),
        disk=(read + written).astype(np.int64).tolist(),
        read=read.astype(np.int64).tolist(),
    )


def _noise(rng: np.random.Generator, spread: _Floats | float, count: int) -> _Floats:
    return np.exp(spread * rng.standard_normal(count))
