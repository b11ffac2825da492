"""``tonnage config``: the current settings, and where they come from."""

from pathlib import Path

import click

from tonnage.cli.options import json_option, print_json
from tonnage.cli.tables import print_table
from tonnage.wording import printable

__all__ = ["config"]


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> None:
    """Show the current settings and where they come from.

    Options take precedence over environment variables, which take precedence over the project's tonnage.toml (in this
    folder or above), which takes precedence over the user's tonnage.toml. Passwords are not shown.

    \b
    Example: tonnage config
             tonnage config trust ~/analysis
    """
    if context.invoked_subcommand is not None:
        return
    from tonnage.archive.url import shown
    from tonnage.config import SETTINGS, project_file, settings, user_file
    from tonnage.files import is_file

    found = [(one, shown(one.text) if one.setting == "archive" else one.text) for one in settings()]
    counts: dict[str, tuple[str, str]] = {}
    for one, text in found:
        if not one.problem:
            counts.setdefault(one.setting, (text, one.origin))
    ignored = [(one, text) for one, text in found if one.problem]
    project, user = project_file(), user_file()
    if as_json:
        print_json(
            {
                "settings": {
                    name: {"value": counts[name][0], "from": counts[name][1]} if name in counts else None
                    for name in SETTINGS
                },
                "ignored": [
                    {"setting": one.setting, "value": text, "from": one.origin, "reason": one.problem}
                    for one, text in ignored
                ],
                "project_file": None if project is None else str(project),
                "user_file": str(user),
            }
        )
        return
    rows = [[name, *counts.get(name, ("", "not set")), setting.meaning] for name, setting in SETTINGS.items()]
    print_table(["setting", "value", "from", "meaning"], [[printable(cell) for cell in row] for row in rows])
    click.echo()
    click.echo(printable(f"project: {project or 'no tonnage.toml here or above'}"))
    click.echo(printable(f"user: {user}{'' if is_file(user) else ' (does not exist)'}"))
    for one, _ in ignored:
        click.echo(printable(f"ignored {one.setting} in {one.origin}: {one.problem}"))


@config.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".")
@click.option("--revoke", is_flag=True, help="Stop trusting it.")
def trust(folder: Path, revoke: bool) -> None:
    """Let tonnage.toml in FOLDER choose where measurements are kept (archive).

    Trust is required because a file that came with someone else's project could send the commands and measurements of
    your runs elsewhere.

    \b
    Example: tonnage config trust ~/analysis
             tonnage config trust --revoke ~/analysis
    """
    from tonnage.config import trust as trust_folder

    trust_folder(folder, revoke=revoke)
    click.echo(printable(f"{folder.resolve()}: {'no longer trusted' if revoke else 'trusted'}"))
