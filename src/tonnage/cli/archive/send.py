"""``tonnage archive send``: send waiting measurements to an archive on a server."""

import click

from tonnage.cli.archive.options import archive_option
from tonnage.cli.options import json_option, print_json, say
from tonnage.errors import InputError
from tonnage.wording import counted

__all__ = ["command"]

_PATIENT = 3.0  # seconds of retries if the server does not answer: a user is waiting


@click.command("send")
@archive_option
@click.option("--refused", is_flag=True, help="Also send what the server refused before.")
@json_option
def command(url: str | None, refused: bool, as_json: bool) -> int:
    """Send what runs measured while the archive's server was unavailable; exit status 1 if some of it still waits.

    The next run with the same archive does the same.

    \b
    Example: tonnage archive send --archive http://jobs.example.org:8000
    """
    from tonnage.archive.remote import Server, messages_about
    from tonnage.archive.remote.outbox import Outbox
    from tonnage.archive.url import is_remote

    if not is_remote(url):
        raise InputError("send needs an archive on a server", hint="--archive http://SERVER:PORT")
    server = Server.of(url)
    outbox = Outbox(server)
    if refused:
        outbox.take_back()
    sent = outbox.send(_PATIENT)
    for problem in messages_about(server, outbox, sent):
        say(str(problem))
    if as_json:
        counts = {"stored": sent.stored, "duplicates": sent.duplicates, "refused": sent.refused}
        print_json({"archive": server.url, **counts, "waiting": sent.waiting})
    else:
        click.echo(f"{server}: {counted(sent.stored + sent.duplicates, 'attempt')} sent, {sent.waiting:,} waiting")
    return 1 if sent.waiting else 0
