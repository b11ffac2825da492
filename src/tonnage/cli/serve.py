"""``tonnage serve``: web pages and a REST API for an archive."""

import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from tonnage.cli.archive.options import archive_option
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.archive import Archive

__all__ = ["serve"]


@click.command()
@archive_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any free port.")
@click.option(
    "--runs",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Show the runs of workflows in this folder; repeatable.  [default: the current folder]",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the token that clients must send.  [default: $TONNAGE_TOKEN, else your own file]",
)
@click.option("--public", is_flag=True, help="Let anyone read; the token is still required for writes.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Accept requests for this host name; repeatable.")
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
def serve(
    url: str | None,
    host: str,
    port: int,
    runs: tuple[Path, ...],
    token_file: Path | None,
    public: bool,
    allow_host: tuple[str, ...],
    verbose: bool,
) -> None:
    """Serve web pages and a REST API for the archive, until Ctrl-C.

    \b
    Example: tonnage serve
             tonnage serve --archive postgresql://me@db.example.org/jobs --port 8080
    """
    try:
        from tonnage.serve.server import serve as run
    except ModuleNotFoundError as error:
        message = f"serve needs the package {error.name}"
        raise InputError(message, hint="pip install 'tonnage[serve]'") from None
    from tonnage.archive.token import make_token
    from tonnage.serve.settings import Settings

    token, place = make_token(token_file)
    settings = Settings(
        archive=url,
        host=host,
        port=port,
        runs=runs or (Path.cwd(),),
        token=token,
        public=public,
        hosts=frozenset(name.lower() for name in allow_host),
    )

    def ready(address: str, archive: "Archive") -> None:
        click.echo(f"Serving {archive} at {address} until Ctrl-C")
        if sys.stdout.isatty():  # keep the token out of log files
            click.echo(f"  log in: {address}login#{urlencode({'token': token})}")
        click.echo(f"  the token is required for {'writes' if public else 'everything'}; it is in {place}")
        if not _is_loopback(host):
            rights = "read everything" if public else "access it with the token"
            click.echo(f"  other machines can reach it and {rights}", err=True)

    run(settings, ready, verbose=verbose)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
