"""Programs that start other programs, and how their command lines are read: which options take a value, what follows.

Only options listed here are looked through. After any other, it is unknown where the started program's name is.
"""

import re
from dataclasses import dataclass, field

__all__ = ["INTERPRETERS", "LAUNCHERS", "OPAQUE", "SHELLS", "Launcher"]

_NUMBER = re.compile(r"-\d+")


@dataclass(frozen=True, slots=True)
class Launcher:
    """The command line of a program that starts another one."""

    valued: dict[str, int] = field(default_factory=dict)
    """The options that are followed by values, and by how many; those of one letter can have theirs attached."""
    flags: frozenset[str] = frozenset()
    operands: int = 0
    """The number of words between the options and the program: a duration, an image."""
    verbs: frozenset[str] = frozenset()
    """One of these must stand before the program: ``exec`` in ``apptainer exec``."""
    assigns: bool = False
    """Whether variables can be set before the program."""
    names: frozenset[str] = frozenset()
    """Options whose value is the program: ``-m`` of Python, ``--entrypoint`` of Docker."""

    def length(self, option: str) -> int | None:
        """Return how many words an option and its values are; None if it is not known."""
        if option in self.valued:
            return 1 + self.valued[option]
        if option in self.flags or (option.startswith("--") and "=" in option):
            return 1
        if option.startswith("--"):
            return None
        if option[:2] in self.valued or ("=" in option and option.split("=", 1)[0] in self.valued):
            return 1
        if _NUMBER.fullmatch(option) and "-0" in self.flags:
            return 1
        return 1 if all(f"-{letter}" in self.flags for letter in option[1:]) else None


def _launcher(
    valued: str = "",
    flags: str = "",
    *,
    operands: int = 0,
    verbs: str = "",
    assigns: bool = False,
    names: str = "",
    pairs: str = "",
) -> Launcher:
    values = {**dict.fromkeys(valued.split(), 1), **dict.fromkeys(pairs.split(), 2)}
    return Launcher(
        values, frozenset(flags.split()), operands, frozenset(verbs.split()), assigns, frozenset(names.split())
    )


_MPI = _launcher(
    "-n -np --np -c -N -npernode --npernode -npersocket -ppn -H -host --host -hosts -hostfile --hostfile -machinefile "
    "--machinefile -f -map-by --map-by -bind-to --bind-to -rank-by --rank-by -x -wdir --wdir -envlist -bootstrap "
    "-launcher --prefix --timeout -output-filename --output-filename",
    "-v -q -l --quiet --oversubscribe -oversubscribe --allow-run-as-root --use-hwthread-cpus --report-bindings "
    "-report-bindings -tag-output --tag-output --display-map -prepend-rank -genvall -nolocal --nooversubscribe",
    pairs="-mca --mca -gmca --gmca -genv -env",
)
_APPTAINER = _launcher(
    "-B --bind --env --env-file -H --home --pwd --cwd -W --workdir -S --scratch -o --overlay --network --network-args "
    "--security --app --hostname --add-caps --drop-caps --mount --no-mount --apply-cgroups --cpus --memory --dns",
    "--nv --nvccli --rocm -c --contain -C --containall -e --cleanenv --writable-tmpfs --writable -w -f --fakeroot -u "
    "--userns --no-home -i --ipc -p --pid --no-privs --keep-privs --compat --no-init --no-umask --no-eval --sharens "
    "--disable-cache --unsquash --allow-setuid -q --quiet -s --silent -d --debug -v --verbose --nocolor",
    operands=1,
    verbs="exec",
)
_DOCKER = _launcher(
    "-v --volume -e --env -w --workdir -u --user --name --mount --cpus -m --memory --gpus --network --net -p --publish "
    "--env-file --shm-size --ulimit --platform -h --hostname -l --label --tmpfs --cap-add --cap-drop --security-opt "
    "--userns --group-add --runtime --pull --add-host --device --cidfile --log-driver --cpuset-cpus --memory-swap "
    "--volumes-from --pid --ipc --uts -c --cpu-shares",
    "--rm -i -t -d --init --privileged --interactive --tty --read-only --detach -P",
    operands=1,
    verbs="run",
    names="--entrypoint",
)
_CONDA = _launcher(
    "-n --name -p --prefix --cwd",
    "-v --verbose --no-capture-output --live-stream --dev --debug-wrapper-scripts",
    verbs="run",
)

LAUNCHERS = {
    "env": _launcher("-u --unset -C --chdir", "-i --ignore-environment -", assigns=True),
    "exec": _launcher("-a", "-c -l"),
    "command": _launcher("", "-p"),
    "nohup": _launcher(),
    "setsid": _launcher("", "-c -f -w"),
    "time": _launcher("-o --output -f --format", "-p -v -a -q --verbose --portability --append --quiet"),
    "timeout": _launcher("-k --kill-after -s --signal", "--foreground --preserve-status -v --verbose", operands=1),
    "nice": _launcher("-n --adjustment", "-0"),
    "ionice": _launcher("-c --class -n --classdata", "-t"),
    "stdbuf": _launcher("-i --input -o --output -e --error"),
    "taskset": _launcher("", "-a --all-tasks -c --cpu-list", operands=1),
    "numactl": _launcher(
        "-i -m -N -C --physcpubind --cpunodebind --membind --interleave --preferred --preferred-many -p",
        "-l --localalloc -a --all -b --balancing",
    ),
    "xvfb-run": _launcher(
        "-e --error-file -f --auth-file -n --server-num -p --xauth-protocol -s --server-args -w --wait",
        "-a --auto-servernum -l --listen-tcp",
    ),
    "sudo": _launcher("-u --user -g --group -C -D --chdir -h --host -p -R -T", "-E -H -n -S -k -b -i -s", assigns=True),
    "strace": _launcher(
        "-e -o -p -s -u -a -b -E -I -O -S -P -X", "-c -C -f -ff -F -i -k -q -r -t -tt -ttt -T -v -x -xx -y"
    ),
    "catchsegv": _launcher(),
    "ibrun": _launcher("-n -o", ""),
    "aprun": _launcher("-n -N -d -S -sl -cc -j -r -L -m -e -p", "-q -B -b"),
    "jsrun": _launcher(
        "-n --nrs -a --tasks_per_rs -c --cpu_per_rs -g --gpu_per_rs -r --rs_per_host -p --np -b --bind -d "
        "--launch_distribution -l --latency_priority -E --env -h --chdir -m --memory_per_rs -o --stdio_stdout -k "
        "--stdio_stderr -M --smpiargs"
    ),
    "srun": _launcher(
        "-n --ntasks -N --nodes -c --cpus-per-task -p --partition -A --account -t --time -w --nodelist -x --exclude -J "
        "--job-name -o --output -e --error -i --input -D --chdir -m --distribution -G --gpus -C --constraint -q --qos "
        "-d --dependency -M --clusters -r --relative -W --wait --mem --mem-per-cpu --mem-per-gpu --gres "
        "--gpus-per-task --gpus-per-node --ntasks-per-node --ntasks-per-core --cpu-bind --mem-bind --gpu-bind --mpi "
        "--export --het-group --threads-per-core --hint --reservation --cpu-freq --jobid",
        "-l --label -u --unbuffered -v --verbose -Q --quiet -K --kill-on-bad-exit -k --no-kill -O --overcommit -s "
        "--oversubscribe -E --preserve-env -X --exclusive --overlap --exact --pty --propagate",
    ),
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "mpiexec.hydra": _MPI,
    "orterun": _MPI,
    "singularity": _APPTAINER,
    "apptainer": _APPTAINER,
    "docker": _DOCKER,
    "podman": _DOCKER,
    "conda": _CONDA,
    "mamba": _CONDA,
    "micromamba": _CONDA,
}
"""Programs that start the program that their arguments name."""

INTERPRETERS = {
    "python": _launcher("-X -W", "-u -B -E -I -O -OO -P -s -S -v -q -b -d", names="-m"),
    "pypy": _launcher("-X -W", "-u -B -E -I -O -OO -s -S -v -q", names="-m"),
    "Rscript": _launcher(
        "--encoding",
        "--vanilla --no-save --no-restore --no-environ --no-init-file --no-site-file --slave --no-echo --verbose "
        "--no-timing --quiet",
    ),
    "julia": _launcher(
        "-t --threads -p --procs -J --sysimage -L --load -C --cpu-target",
        "-q --quiet --project -O -O0 -O1 -O2 -O3 -g -g0 -g1 -g2 -i --startup-file --history-file --inline",
    ),
    "perl": _launcher("-I", "-w -W -X -T -t -s -S -u -U"),
    "ruby": _launcher("-I -r -C -E", "-w -W -W0 -v -d --jit --yjit"),
    "java": _launcher(
        "-cp -classpath --class-path -D -X --add-opens --add-modules",
        "-server -client -ea -esa",
        names="-jar -m --module",
    ),
    "node": _launcher("-r --require --max-old-space-size", "--expose-gc --enable-source-maps"),
}
"""Programs that run the script that their arguments name, without their version."""

OPAQUE = frozenset(
    ("xargs", "parallel", "uv", "uvx", "poetry", "pixi", "pipenv", "flux", "shifter", "ipython", "torchrun")
)
"""Programs that start others as well, but whose command lines are not read here."""

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
