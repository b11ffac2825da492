"""A program that decides while it runs what to compute next: simulate, infer, choose, and again.

Somewhere on a line between 0 and 10 is the best of all materials. A simulation says how good one candidate is; a few
take far more memory and time than the rest, and nobody knows which. After every round a curve is fitted to what is
known, and the next candidates are those where it promises most. Run it twice: the second time, sizes are known.
"""

import random
import time

import tonnage

MB = 10**6
ROUNDS = 3
CANDIDATES = 8


def simulate(x: float, seed: int) -> tuple[float, float]:
    """Return a candidate and how good it is; what that takes has a long tail."""
    chance = random.Random(seed)
    effort = min(8.0, chance.paretovariate(1.5))
    noise = 0.1 * chance.gauss()
    held = bytearray(int(20 * MB * effort))
    end = time.process_time() + 0.05 * effort
    good = 0.0
    while time.process_time() < end:
        good = 5 - (x - 6.5) ** 2 + noise
    return x, good if held else 0.0


def infer(known: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Fit a parabola to what is known; return its coefficients."""
    import numpy as np

    xs, ys = zip(*known, strict=True)
    a, b, c = np.polyfit(xs, ys, 2)
    return float(a), float(b), float(c)


def choose(curve: tuple[float, float, float], chance: random.Random) -> list[float]:
    """Return the candidates to simulate next: about where the curve is highest, and a few anywhere."""
    a, b, _ = curve
    best = min(10.0, max(0.0, -b / (2 * a))) if a < 0 else chance.uniform(0, 10)
    near = [chance.gauss(best, 0.5) for _ in range(CANDIDATES - 2)]
    return near + [chance.uniform(0, 10) for _ in range(2)]


def main() -> None:
    """Search, and say what it took."""
    chance = random.Random(8)
    known: list[tuple[float, float]] = []
    simulations, fits = [], []
    wanted = [chance.uniform(0, 10) for _ in range(CANDIDATES)]
    with tonnage.Executor(name="steering", machine={"cores": 2, "memory": "1GB"}) as pool:
        for number in range(1, ROUNDS + 1):
            futures = [pool.submit(simulate, x, seed=chance.randrange(1000)) for x in wanted]
            known += [future.result() for future in futures]
            fit = pool.submit(infer, known)
            wanted = choose(fit.result(), chance)
            simulations += futures
            fits.append(fit)
            best, good = max(known, key=lambda pair: pair[1])
            print(f"round {number}: {len(known)} simulated, the best is {best:.2f} ({good:.2f})")
    for futures in (simulations, fits):
        tell(futures)


def tell(futures: list) -> None:
    """Print what the tasks of a category were given, and how much of it they did not use."""
    attempts = [attempt for future in futures for attempt in future.attempts]
    first, last = futures[0].attempts[0], futures[-1].attempts[0]
    measured = [future for future in futures if future.usage.memory]  # on a busy machine, not every short one is
    given = 0.0
    for attempt in (attempt for future in measured for attempt in future.attempts):
        held = max(attempt.allocated.memory, attempt.used.memory or 0.0)  # it may outgrow what it was allocated
        given += held * (attempt.used.wall_time or 0.0)
    used = sum(future.usage.memory * future.usage.wall_time for future in measured)
    print(
        f"{futures[0].category}: given {first.allocated.memory / MB:.0f} MB of memory at first, "
        f"{last.allocated.memory / MB:.0f} MB at the end; {len(futures)} tasks, {len(attempts)} attempts, "
        f"{1 - used / given if given else 0:.0%} wasted"
    )
    memory = next(one for one in last.decisions if one.resource == "memory")
    print(f"  because: {memory.reason}")


if __name__ == "__main__":
    main()
