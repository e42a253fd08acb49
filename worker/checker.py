"""The checker: loads the scoring model, judges candidates until it is told to stop, and drains."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from aio_pika.abc import AbstractRobustConnection

from ..guards.checks.thresholds import (
    BadThresholds,
    profile_names,
    read_tables,
    require_usable,
    thresholds,
)
from ..producer.confirms import ConfirmedPublisher
from . import logs, metrics
from .check_intake import EXAMINER, CheckIntake
from .config import Config, ConfigError, file_text
from .examiner import Examiner
from .frame import ExitCode, Service, until_signalled
from .installed import versions
from .publications import Identity
from .retrying import retry_table
from .scorers import make_scorer
from .scoring import Scorer
from .settler import Settler

log = logging.getLogger(__name__)

# How long the process waits for a check that is still under way when all else is done.
_LAST_WAIT_S: Final = 1.0


class Checker(Service):
    """One checker. `run` returns when it was asked to stop and has drained, or when it is stuck."""

    def __init__(self, config: Config, scorer: Scorer | None = None) -> None:
        super().__init__(config, "checker")
        self._tables = check_tables(config)
        self._retries = retry_table(config)
        self._given_scorer = scorer
        self._stuck = False

    async def _serve(self, jobs: AbstractRobustConnection, stack: AsyncExitStack) -> ExitCode:
        scorer = self._given_scorer or await self._load()
        if scorer is None:
            log.info("stopped before the scoring model was loaded")
            return ExitCode.OK
        stack.callback(scorer.close)
        await self._work(jobs, scorer)
        return ExitCode.ENGINE_LOST if self._stuck else ExitCode.OK

    def _fits(self, config: Config) -> None:
        check_fits(config)

    async def _load(self) -> Scorer | None:
        self._trouble = "loading the scoring model"
        log.info("loading the scoring model: %s", self._config.scoring_model)
        began = time.monotonic()
        scorer = await self._unless_stopped(asyncio.to_thread(make_scorer, self._config))
        if scorer is not None:
            log.info("scoring model ready after %.1f s", time.monotonic() - began)
        if self._config.embedding_model and not _uses_similarity(self._tables):
            log.warning(
                "embedding_model is set, but relevance_similarity_min is 0 in every profile, so it "
                "judges nothing: set it in checks_file (`sluice calibrate` does), and "
                "relevance_min = 0 where it should judge instead of the scoring model"
            )
        return scorer

    async def _work(
        self,
        connection: AbstractRobustConnection,
        scorer: Scorer,
    ) -> None:
        config = self._config
        examiner = Examiner(scorer, self._name, self._tables)
        who = Identity(
            worker=self._name,
            model=examiner.model,
            names=self._names,
            versions=versions("torch", "transformers"),
            secrecy=self._secrecy,
        )
        self._herald.model = examiner.model
        publisher = ConfirmedPublisher(connection)
        settler = Settler(publisher, who, publish_timeout_s=config.publish_timeout_s)
        events = self._events
        metrics.CONSUMERS.set_function(lambda: sum(each.consuming for each in self._subscriptions))
        async with asyncio.TaskGroup() as group:
            intake = CheckIntake(
                group,
                examiner,
                who,
                settler,
                events,
                self._retries,
                batch=config.check_batch,
                wait_s=config.check_wait_s,
                timeout_s=config.check_timeout_s,
                on_stuck=self._get_stuck,
                cancellations=self._control.cancellations,
            )
            examining = group.create_task(intake.run(), name="examining")
            try:
                # One batch is looked at while the next one comes in.
                subscribing = self._subscribe(
                    connection,
                    self._names.checks,
                    what="checks",
                    on_message=intake.take,
                    prefetch=2 * config.check_batch,
                )
                said = f"checking candidates, up to {config.check_batch} at once"
                await self._attend(subscribing, intake, said, lambda: self._stuck)
            finally:
                examining.cancel()
                await self._unsubscribe()
        await publisher.close()
        if self._died is not None:
            raise self._died

    def _get_stuck(self) -> None:
        log.error("a check is stuck; handing back what waits")
        self._stuck = True
        self._stop.set()


def check_fits(config: Config) -> None:
    """Raise ConfigError where a batch and the one before it outlast the broker's patience."""
    if 2 * config.check_timeout_s >= config.consumer_timeout_s:
        raise ConfigError(
            f"check_timeout_s ({config.check_timeout_s:g}) must be less than half of "
            f"consumer_timeout_s ({config.consumer_timeout_s:g}), or the broker takes texts away "
            "while they are checked; raise consumer_timeout in rabbitmq.conf and here, or lower it"
        )


def _uses_similarity(tables: Mapping[str, Mapping[str, Any]] | None) -> bool:
    several = (thresholds(name, deployment=tables) for name in profile_names())
    return any(each.relevance_similarity_min for each in several)


def check_tables(config: Config) -> dict[str, dict[str, Any]] | None:
    """The deployment's own thresholds. Raises ConfigError."""
    if not config.checks_file:
        return None
    try:
        tables = read_tables(file_text(config.checks_file, "checks_file"))
        require_usable(tables)
    except BadThresholds as error:
        raise ConfigError(f"checks_file {config.checks_file}: {error}") from error
    return tables


def run_checker(config: Config) -> int:
    """Run a checker in this process until a signal stops it. Returns its exit code."""
    logs.configure(config.log_format, config.log_level, hides=config.keep_texts != "full")
    code = asyncio.run(_run(config))
    for thread in threading.enumerate():
        # One that is stuck would be waited for, for ever.
        if thread.name.startswith(EXAMINER):
            thread.join(_LAST_WAIT_S)
            if thread.is_alive():
                log.warning("leaving while a text is still looked at")
                logging.shutdown()
                os._exit(code)
    return code


async def _run(config: Config) -> int:
    return await until_signalled(Checker(config))
