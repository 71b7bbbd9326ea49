"""Launch: choose what to compare and how, check that this machine is fit for it, and start."""

import textwrap
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from msgspec import structs
from textual.binding import Binding

from engine.builds.label import name_of, refuse_password
from engine.core.errors import UserError
from engine.core.text import user_path, visible
from engine.journal import runs
from engine.plan.command_line import arguments, command
from engine.plan.request import request_of
from tui import bench
from tui.keys import key
from tui.launch import choices as launch_choices
from tui.launch import text as launch_text
from tui.launch.plan_edits import keep
from tui.launch.plan_screen import PlanScreen
from tui.marks import line
from tui.screens.dialogs import AskScreen, LineScreen, PagesScreen, PickScreen


class LaunchScreen(PlanScreen):
    """A plan, and the actions on it: start, show, save, resume."""

    TITLE_WORD: ClassVar[str] = "LAUNCH"
    BINDINGS: ClassVar[list[Binding]] = [
        key("s", "start", "start", "launch.start"),
        key("d", "dry_run", "dry run", "launch.dry_run"),
        key("w", "save", "save", "launch.save"),
        key("o", "load", "open", "launch.open"),
        key("r", "resume", "resume", "launch.resume"),
        key("c", "check", "check the machine again", "launch.check", show=False),
    ]

    def action_check(self) -> None:
        self.checks = ()
        self.draw()
        self.ask_choices()

    # -- starting

    def action_start(self) -> None:
        """Ask, with the size of the run and the checks that failed, and start it."""
        self.look()
        failed = [item.name for item in self.check_items() if item.box == "x"]
        if self.trouble:
            self.bench.say(self.trouble, "warning")
        elif not self.plan.builds:
            self.bench.say("No build selected: press space on a ready plan, or on builds", "warning")
        else:
            self.refused = ""
            concurrent = self.plan.allow_concurrent or launch_choices.ANOTHER_RUN in failed
            plan = structs.replace(self.plan, allow_concurrent=concurrent)
            words = ("run", *arguments(plan), "--out", str(self.context.out), "--detach")
            doing = "starting: the builds are prepared first"
            amount = launch_text.amount(self.estimate) if self.estimate else "Time and disk are still being estimated"
            known = f"Failed checks: {', '.join(failed)}" if failed else "" if self.checks else "Checks are running"
            question = f"Start? {amount}. {known}".rstrip()
            self.bench.ask_user(AskScreen(question), lambda _: self._do(doing, self._started(words)))

    async def _started(self, words: tuple[str, ...]) -> None:
        try:
            started = await bench.ask_json(*words, console=self._starting)
        except UserError as error:
            self.look()  # another run may have begun while the builds were prepared
            beside = "--allow-concurrent" in str(error)
            here = beside and self.measuring not in ("", runs.ELSEWHERE)
            if here:
                self.bench.select(self.context.out / self.measuring)
            another = f"another run is measuring: {'2 watches it, ' * here}s asks again"
            self.refused = another if beside else str(error)
            raise UserError(self.refused) from error
        self._watch(Path(started["folder"]))

    def _starting(self, text: str) -> None:
        self.progress(f"starting: {text.removeprefix('starting ')}")

    def action_resume(self) -> None:
        async def choose() -> None:
            self.offer = replace(self.offer, runs=tuple(await bench.ask_json("list", "runs", "--out", self._out)))
            left = launch_choices.unfinished(self.offer)
            if not left:
                self.bench.say(f"no run in {self._out} is unfinished")
                return
            options = [(str(row["run"]), f"{row['cells'] or '0':>7} {row['state']:<12} {row['run']}") for row in left]
            self.bench.ask_user(PickScreen("Resume which run? Finished cells are not run again.", options), taken)

        def taken(chosen: tuple[str, ...]) -> None:
            self._do(f"going on with {chosen[0]}", go_on(Path(self._out, chosen[0])))

        async def go_on(run: Path) -> None:
            await bench.ask("resume", str(run), "--out", self._out, "--detach", console=self.progress)
            self._watch(run)

        self._do("looking for unfinished runs", choose())

    def _watch(self, run: Path) -> None:
        """Open Live on a run; from another screen, only show a notice."""
        self.ask_choices(look=False)
        if self.is_current:
            self.bench.look_at(run)
        else:
            self.context.run = run
            self.bench.say(f"Started {run.name}; press 2 to watch it")

    # -- looking and keeping

    def action_dry_run(self) -> None:
        """Show the cells in order; missing builds are made, but nothing starts."""
        if not self.plan.builds:
            self.bench.say("no build is chosen: there is nothing to run", "warning")
            return
        plan = self.plan

        async def ask() -> None:
            words = ("run", *arguments(plan), "--out", self._out, "--dry-run")
            answer = await bench.ask(*words, console=self.progress)
            texts = (f"the same by hand: {command(plan)}", *answer.splitlines())
            columns = min(100, self.app.size.width * 9 // 10) - 5  # of that page, without its edges
            rows = [row for text in texts for row in textwrap.wrap(visible(text), columns, break_on_hyphens=False)]
            self.bench.push_screen(PagesScreen("dry run: nothing is started", [line(row) for row in rows]))

        self._do("preparing the builds for a dry run", ask())

    def action_save(self, name: str = "", wrong: str = "") -> None:
        """Ask for a file and write the plan; after the error `wrong`, keep the line that was typed."""

        def save(path: Path) -> None:
            try:
                keep(self.plan, path)
            except UserError as error:
                self.action_save(str(path), str(error))
                return
            self.file, self.kept = str(path), self.plan
            self.draw()
            self.bench.say(f"written: {path}; the same by hand: bench --plan {path}")

        def typed(text: str) -> None:
            path = user_path(text)
            if path.exists() and text != self.file:
                self.bench.ask_user(AskScreen(f"{path} is there already. Replace it?"), lambda _: save(path))
            else:
                save(path)

        if self.plan.builds:
            self.bench.ask_user(LineScreen("save the plan as", name or self.file or "plan.toml", wrong=wrong), typed)
        else:
            self.bench.say("no build is chosen: there is no plan to save", "warning")

    def action_load(self, name: str = "", wrong: str = "") -> None:
        """Ask for a plan file and open it; after the error `wrong`, keep the line that was typed."""

        async def load(path: Path) -> None:
            try:
                record = await bench.ask_json("run", "--plan", str(path), "--out", self._out, "--estimate")
                plan = request_of(record["plan"])
                for build in plan.builds:
                    refuse_password(build)
            except UserError as error:
                self.action_load(str(path), str(error))
                return
            self.file, self.kept = str(path), plan
            self.change(self.kept, record)
            self.show_build(name_of(plan.base_build or ""))
            self.draw()
            self.bench.say(f"plan taken from {path}")

        def typed(text: str) -> None:
            self._do(f"reading {text}", load(user_path(text)))

        self.bench.ask_user(LineScreen("open the plan", name or self.file or "plan.toml", wrong=wrong), typed)

    # -- one thing at a time

    @property
    def _out(self) -> str:
        return str(self.context.out)

    def _do(self, doing: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` with a notice unless something else is under way, and show any error."""
        if self.doing:
            work.close()
            self.bench.say(f"wait: {self.doing}", "warning")
            return

        async def guarded() -> None:
            try:
                await work
            except UserError as error:
                self.bench.complain(error)
            except (TypeError, KeyError) as error:  # JSON from another version of bench
                self.bench.complain(UserError(f"unexpected answer of bench: {error!r}"))
            finally:
                self.progress("")

        self.progress(doing)
        self.run_worker(guarded(), group="doing", exit_on_error=False)
