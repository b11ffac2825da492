"""The page: one HTML file with everything in it, which asks nobody for anything."""

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

__all__ = ["made_by", "need_pages", "plotly_script", "static_text", "write_page"]

_SCRIPTS = ("pictures.js", "tables.js")


def need_pages() -> None:
    """Raise InputError where what pages need is not installed."""
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
    except ModuleNotFoundError as error:
        hint = "pip install 'tonnage[report]'"
        raise InputError(f"reports need the package {error.name}", hint=hint) from None


def plotly_script() -> str:
    """Return plotly's JavaScript, which its Python package carries."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def static_text(name: str) -> str:
    """Return a style sheet or script of ours."""
    return (files("tonnage.report") / "static" / name).read_text(encoding="utf-8")


def made_by(verb: str) -> str:
    """Say when a page was made, and with what."""
    return f"Made by tonnage {verb} {__version__} on {datetime.now(UTC):%d %B %Y at %H:%M} UTC."


def write_page(report: Report, path: Path, made: str) -> int:
    """Write a report as one HTML file, whole or not at all; return its size in bytes. `made` says when and by whom."""
    data = _rendered(report, made).encode("utf-8", "replace")
    with AtomicFile(path) as file:
        file.write(data)
    return len(data)


def _rendered(report: Report, made: str) -> str:
    need_pages()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from tonnage.report.template_context import view_of

    # Scripts are allowed by what they contain: a script that came in with a name would not run, even unescaped.
    scripts = [plotly_script(), *(static_text(name) for name in _SCRIPTS)]
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in scripts]
    environment = Environment(
        loader=PackageLoader("tonnage.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        view=view_of(report, made),
        style=Markup(static_text("style.css")),  # noqa: S704 (our own)
        scripts=[Markup(text) for text in scripts],  # noqa: S704 (plotly's and our own)
        hashes=hashes,
        as_json=lambda value: Markup(escaped_json(value)),  # noqa: S704 (escaped there)
        version=__version__,
    )
