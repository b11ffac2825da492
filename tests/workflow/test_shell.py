"""Commands as text."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.workflow.shell import executable, one_line, several_lines, without_number


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("./bin/bwa mem a", "bwa"),
        ("bwa mem ref.fa 'a b.fq' > out.sam 2> err", "bwa"),
        ("LC_ALL=C X=1 sort -u", "sort"),
        ("A='x y' B=\"z\" ./p", "p"),
        ("DAY=$(date +%F) ./report.sh", "report.sh"),
        ("(cd x && ls)", "ls"),
        ("", None),
        ("A=1", None),
        ("cd $SCRATCH/run7 && ./simulate -n 100", "simulate"),
        ("set -euo pipefail; source ~/env.sh; export OMP_NUM_THREADS=4; namd2 +p4 a.conf", "namd2"),
        ("set -e\n# map the reads\nmodule purge\nmodule load bwa/0.7.17 samtools\nbwa mem a.fa b.fq", "bwa"),
        (". /etc/profile.d/modules.sh && module load gcc && ./solver in.dat", "solver"),
        ("source activate tools && fastqc -o out a.fq", "fastqc"),
        ('eval "$(conda shell.bash hook)" && conda activate tools && fastqc a.fq', "fastqc"),
        ("mkdir -p out && STAR --runMode alignReads", "STAR"),
        ("mkdir -p out", "mkdir"),
        ("echo hello > out.txt", "echo"),
        ("cd x", None),
        ("module load bwa", None),
        ("zcat a.gz | grep -c '^>' > n.txt", "zcat"),
        ("! ./check a", "check"),
        ("sh -c 'cd x && bwa index a.fa'", "bwa"),
        ('/bin/bash -euo pipefail -c "module load hmmer; hmmsearch a b"', "hmmsearch"),
        ("bash -lc 'srun ./a.out'", "a.out"),
        ("bash scripts/align.sh sample1", "align.sh"),
        ("sh -x ./align.sh sample1", "align.sh"),
        ("bash -s < script.sh", None),
        ("env OMP_NUM_THREADS=2 nice -n 10 ./lmp -in in.lj", "lmp"),
        ("env -i -u HOME PATH=/bin ./lmp", "lmp"),
        ("/usr/bin/env python3 plot.py", "plot.py"),
        ("exec ./run.x 1 2", "run.x"),
        ("time -p ./fit data.csv", "fit"),
        ("/usr/bin/time -v -o time.txt ./fit data.csv", "fit"),
        ("timeout -k 5 2h ./search --deep", "search"),
        ("timeout --signal=INT 600 ./search", "search"),
        ("nice -19 gzip a", "gzip"),
        ("nohup ./server &", "server"),
        ("taskset -c 0-3 numactl --interleave=all ./sim", "sim"),
        ("xvfb-run -a -s '-screen 0 1x1x8' Rscript plot.R", "plot.R"),
        ("sudo -u ada OMP_NUM_THREADS=2 ./sim", "sim"),
        ("aprun -n 4 ./sim", "sim"),
        ("jsrun -n 4 --bind packed:2 ./sim", "sim"),
        ("java -Xmx4g -Djava.io.tmpdir=t -jar lib/picard.jar MarkDuplicates", "picard.jar"),
        ("java -cp a.jar:b.jar org.x.Main", "org.x.Main"),
        ("find . -name x | xargs -n1 bwa", "find"),
        ("xargs -n1 bwa < list", None),
        ("parallel -j4 bwa ::: a b", None),
        ("uv run x.py", None),
        ("./sim & wait", "sim"),
        ("srun ./lmp", "lmp"),
        ("srun -n 4 --cpus-per-task=2 --mem 4G --exclusive ./lmp -in a", "lmp"),
        ("srun -n4 -l bash -c 'hostname && gmx mdrun'", "gmx"),
        ("srun --odd-option ./lmp", None),
        ("mpirun -np 8 --map-by core --mca btl tcp,self ./solver a.inp", "solver"),
        ("mpiexec -n 4 -genv I_MPI_DEBUG 5 python3 -u train.py", "train.py"),
        ("mpirun --allow-run-as-root --oversubscribe -x LD_LIBRARY_PATH pw.x -in scf.in", "pw.x"),
        ("singularity exec image.sif samtools sort a.bam", "samtools"),
        ("singularity -q exec --nv -B /data:/data,/ref:/ref docker://quay.io/bwa:1 bwa mem a", "bwa"),
        ("apptainer exec --cleanenv --bind $PWD image.sif bash -c 'cd /data; gatk HaplotypeCaller'", "gatk"),
        ("apptainer run image.sif input", None),
        ("docker run --rm -it -v $PWD:/data -w /data biocontainers/bwa bwa mem a", "bwa"),
        ("docker run --rm --entrypoint /usr/bin/samtools image view a", "samtools"),
        ("docker run image", None),
        ("podman run --rm -m 4g image ./tool", "tool"),
        ("docker build .", None),
        ("conda run -n qc --no-capture-output multiqc .", "multiqc"),
        ("micromamba run -p /envs/qc multiqc .", "multiqc"),
        ("conda activate qc && multiqc .", "multiqc"),
        ("conda install x", None),
        ("python3 scripts/simulate.py --seed 1", "simulate.py"),
        ("python -u -W ignore simulate.py", "simulate.py"),
        ("/opt/python3.11/bin/python3.11 -m multiqc .", "multiqc"),
        ("python -c 'print(1)'", None),
        ("python3 - <<EOF\nprint(1)\nEOF", None),
        ("python < x.py", None),
        ("Rscript --vanilla fit.R 3", "fit.R"),
        ("Rscript -e 'knit()'", None),
        ("julia --project=. -t 4 model.jl", "model.jl"),
        ("julia -e 'run()'", None),
        ("perl -w filter.pl a", "filter.pl"),
        ("perl -ne 'print if /x/' a", None),
        ("for i in 1 2 3; do ./step $i; done", None),
        ("if [ -f a ]; then ./step; fi", None),
        ("$BWA mem a", None),
        ("${TOOLS}/bwa mem a", "bwa"),
        ("`which bwa` mem a", None),
        ("echo 'it", None),
        ("'/opt/my tools/align' a", "align"),
        ("ssh host ./p", "ssh"),
    ],
)
def test_the_program_that_a_command_is_about(command: str, program: str | None) -> None:
    assert executable(command) == program


@given(st.text(st.sampled_from("ab '\"\\$0n\n&|;()<>`-=c/"), max_size=60))
def test_any_text_has_a_program_or_none(text: str) -> None:
    for command in (text, f"sh -c {text}", f"srun {text}"):
        found = executable(command)
        assert found is None or (found and "/" not in found and not set("$`'\" \n;&|()<>") & set(found))
        assert executable(one_line(command)) == found


@pytest.mark.parametrize(
    ("name", "stem"),
    [("align_ID0000012", "align"), ("align-7", "align"), ("align7", "align"), ("align", "align"), ("12", "12")],
)
def test_names_without_their_number(name: str, stem: str) -> None:
    assert without_number(name) == stem


@given(st.text(st.sampled_from("ab '\"\\$0n\n\r\t%é#"), max_size=40))
def test_several_lines_travel_in_one_and_come_back(command: str) -> None:
    packed = one_line(command)
    assert "\n" not in packed
    assert "\r" not in packed
    assert several_lines(packed) == command
    assert several_lines(one_line(packed)) == packed


@pytest.mark.parametrize("script", ["echo a\necho 'b  c' \"$HOME\" \\\\ é\n", "cat <<E\n it's %s $((1+2))\nE"])
def test_a_packed_script_does_the_same(script: str) -> None:
    results = [
        subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True).stdout
        for text in (script, one_line(script))
    ]
    assert results[0] == results[1] != b""
