"""Pegasus DAX: XML, read safely."""

from pathlib import Path

import pytest

from tonnage.errors import CycleError, InputError
from tonnage.jobs import Amounts
from tonnage.workflow import Workflow, read

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<adag xmlns="http://pegasus.isi.edu/schema/DAX" name="demo">\n'


def load(folder: Path, body: str, head: str = HEAD, tail: str = "</adag>\n") -> Workflow:
    path = folder / "demo.dax"
    path.write_text(head + body + tail)
    return read(path)


def test_version_2_jobs_files_sizes_and_run_times(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        <!-- a comment -->
        <job id="ID1" namespace="g" name="split" version="1.0" runtime="161.28">
          <uses file="a" link="input" size="100"/><uses file="b" link="input" size="50"/>
          <uses file="c" link="output" size="7"/>
        </job>
        <job id="ID2" name="join"><uses file="c" link="input"/></job>
        <child ref="ID2"><parent ref="ID1"/></child>
        """,
    )
    first, second = workflow.tasks
    assert (workflow.name, first.name, first.category, first.inputs, first.outputs) == (
        "demo",
        "ID1",
        "split",
        ("a", "b"),
        ("c",),
    )
    assert (first.expected.wall_time, first.input_bytes) == (161.28, 150)
    assert (second.expected.wall_time, second.input_bytes) == (None, None)
    assert workflow.graph.edges == 1


def test_version_3_arguments_profiles_and_inner_workflows(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        <job id="j" name="align"><argument>-t 4 <file name="in.fq"/> -o
            <file name="out.bam"/></argument>
          <profile namespace="pegasus" key="memory">2048</profile>
          <profile namespace="pegasus" key="runtime">60</profile>
          <profile namespace="condor" key="request_cpus">4</profile>
          <stdout name="out.log" link="output"/>
          <uses name="in.fq" link="input"/><uses name="log" link="inout"/>
        </job>
        <dax id="k" file="inner.dax"/>
        <child ref="k"><parent ref="j" edge-label="x"/></child>
        """,
    )
    job = workflow.tasks[0]
    assert job.command == "align -t 4 in.fq -o out.bam > out.log"
    assert job.request == Amounts.of(cores=4, memory=2 * 2**30)
    assert job.expected == Amounts.of(wall_time=60)
    assert (job.inputs, job.outputs) == (("in.fq", "log"), ("log",))
    assert (workflow.tasks[1].category, workflow.tasks[1].command) == ("inner.dax", None)


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ('<job id="a" name="x"/>\n<job id="a" name="y"/>', 4, '"a" is defined twice'),
        ('<job name="x"/>', 3, 'has no attribute "id"'),
        ('<job id="a" runtime="fast"/>', 3, 'the attribute runtime is "fast"'),
        ('<job id="a" runtime="-1"/>', 3, 'the attribute runtime is "-1"'),
        ('<job id="a" name="x"/>\n<child ref="a">\n<parent ref="b"/></child>', 5, '"b", which is not a task'),
        ('<job id="a"><uses link="input"/></job>', 3, "names no file"),
        ('<job id="a">', 3, "not well-formed"),
        ("&amp;&unknown;", 3, "not well-formed"),
        ("<a>" * 40 + "</a>" * 40, 3, "nested deeper"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, body: str, line: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, body)
    assert caught.value.line == line
    assert message in caught.value.message


def test_bombs_other_files_and_other_roots_are_refused(tmp_path: Path) -> None:
    laughs = '<!DOCTYPE adag [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<adag><job id="&b;"/>'
    with pytest.raises(InputError, match="DOCTYPE"):
        load(tmp_path, laughs, head="")
    outside = '<!DOCTYPE adag [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<adag>&x;'
    with pytest.raises(InputError, match="DOCTYPE"):
        load(tmp_path, outside, head="")
    with pytest.raises(InputError, match=r"root element is <html>"):
        load(tmp_path, "<html>", head="", tail="</html>")
    with pytest.raises(InputError, match="nested deeper"):
        load(tmp_path, "<x>" * 100_000)
    with pytest.raises(InputError, match="contains no jobs"):
        load(tmp_path, "")


def test_a_cycle_is_named(tmp_path: Path) -> None:
    jobs = "".join(f'<job id="{name}" name="x"/>' for name in "ab")
    with pytest.raises(CycleError, match=r"a -> b -> a|b -> a -> b"):
        load(tmp_path, f'{jobs}<child ref="a"><parent ref="b"/></child><child ref="b"><parent ref="a"/></child>')
