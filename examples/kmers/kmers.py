"""Count the k-mers of simulated DNA reads: the steps of the example workflow, standard library only.

python3 kmers.py simulate READS N      write N reads of a random genome
python3 kmers.py split READS CHUNK...  share the reads out, each chunk larger than the one before
python3 kmers.py filter CHUNK CLEAN    drop reads of low complexity
python3 kmers.py count CLEAN COUNTS    count k-mers (memory grows with the chunk)
python3 kmers.py merge COUNTS... OUT   add counts up
python3 kmers.py spectrum COUNTS OUT   how many k-mers occur how often
"""

import json
import random
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

K = 21
READ = 150


def simulate(reads: str, count: str) -> None:
    """Write reads from random places of a genome, with a few errors."""
    source = random.Random(1)
    genome = "".join(source.choices("ACGT", k=200_000))
    with Path(reads).open("w") as out:
        for _ in range(int(count)):
            start = source.randrange(len(genome) - READ)
            read = list(genome[start : start + READ])
            if source.random() < 0.3:
                read[source.randrange(READ)] = source.choice("ACGT")
            out.write("".join(read) + "\n")


def split(reads: str, *chunks: str) -> None:
    """Share the reads out unevenly, as real lanes are."""
    lines = Path(reads).read_text().splitlines(keepends=True)
    shares = [number + 1 for number in range(len(chunks))]
    ends = [0]
    for share in shares:
        ends.append(ends[-1] + len(lines) * share // sum(shares))
    for (begin, end), chunk in zip(pairwise(ends), chunks, strict=True):
        Path(chunk).write_text("".join(lines[begin:end]))


def keep_complex(chunk: str, clean: str) -> None:
    """Drop reads in which one letter makes up most of the sequence."""
    lines = Path(chunk).read_text().splitlines(keepends=True)
    Path(clean).write_text("".join(line for line in lines if max(map(line.count, "ACGT")) < READ // 2))


def count(clean: str, counts: str) -> None:
    """Count all k-mers in memory."""
    found: Counter[str] = Counter()
    with Path(clean).open() as reads:
        for read in reads:
            found.update(read[start : start + K] for start in range(len(read) - K))
    Path(counts).write_text(json.dumps(found))


def merge(*names: str) -> None:
    """Add up the counts of several files into the last one."""
    total: Counter[str] = Counter()
    for name in names[:-1]:
        total.update(json.loads(Path(name).read_text()))
    Path(names[-1]).write_text(json.dumps(total))


def spectrum(counts: str, out: str) -> None:
    """Write how many k-mers occur once, twice, and so on."""
    often = Counter(json.loads(Path(counts).read_text()).values())
    Path(out).write_text("".join(f"{times}\t{often[times]}\n" for times in sorted(often)))


STEPS = {
    "simulate": simulate,
    "split": split,
    "filter": keep_complex,
    "count": count,
    "merge": merge,
    "spectrum": spectrum,
}

if __name__ == "__main__":
    STEPS[sys.argv[1]](*sys.argv[2:])
