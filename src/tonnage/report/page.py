"""The report as one self-contained HTML file: its template, style sheet and scripts."""

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from tonnage import __version__
from tonnage.atomic import AtomicFile
from tonnage.errors import InputError
from tonnage.report.figures.basics import escaped_json
from tonnage.report.model import Report
from tonnage.report.template_context import view_for

__all__ = ["made_by", "need_pages", "write_page"]

_SCRIPTS = ("plotly-basic.min.js", "pictures.js", "tables.js")  # plotly first: pictures are drawn with it


def need_pages() -> None:
    """Raise InputError if a package that pages need is not installed."""
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError as error:
        hint = "pip install 'tonnage[report]'"
        raise InputError(f"reports need the package {error.name}", hint=hint) from None


def _static_text(name: str) -> str:
    """Return a style sheet or a script."""
    return (files("tonnage.report") / "static" / name).read_text(encoding="utf-8")


def made_by(verb: str) -> str:
    """Return the sentence that says when and by what a page was made."""
    return f"Made by tonnage {verb} {__version__} on {datetime.now(UTC):%d %B %Y at %H:%M} UTC."


def write_page(report: Report, path: Path, made: str) -> int:
    """Write a report as one HTML file, atomically; return its size in bytes. `made` is a sentence from `made_by`."""
    data = _rendered(report, made).encode("utf-8", "replace")
    with AtomicFile(path) as file:
        file.write(data)
    return len(data)


def _rendered(report: Report, made: str) -> str:
    need_pages()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    # Scripts are allowed by their hashes: a script injected through a name would not run, even unescaped.
    scripts = [_static_text(name) for name in _SCRIPTS]
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in scripts]
    environment = Environment(
        loader=PackageLoader("tonnage.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        view=view_for(report, made),
        style=Markup(_static_text("style.css")),  # noqa: S704 (our own)
        scripts=[Markup(text) for text in scripts],  # noqa: S704 (plotly's and our own)
        hashes=hashes,
        as_json=lambda value: Markup(escaped_json(value)),  # noqa: S704 (escaped there)
        version=__version__,
    )
