"""
Check a deployment for drift: queues, mappings, concurrency and heartbeat that were changed after it.

The reference is the deployment document, which `cdk deploy` wrote from `lanes.toml`.
"""

from __future__ import annotations

import dataclasses
import enum
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lanes.config.deployment import VARIABLE
from lanes.errors import AwsError
from lanes.operate import check_rules as rules
from lanes.operate.pause import DISABLED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.config.deployment import Deployment
    from lanes.operate.check_rules import DeployedState, Problem
    from lanes.operate.pause import LaneMapping

T = TypeVar("T")
DENIED = ("AccessDenied", "Unauthorized", "Forbidden")
GONE = ("NotFound", "NonExistentQueue", "DoesNotExist")


class Verdict(enum.StrEnum):
    """The verdict of a finding."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"  # it could not be read
    NOTE = "note"  # it is allowed, and its consequences are easy to miss


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One finding.

    Attributes:
        code: name of the finding for programs, which stays the same.
        subject: the checked part.
        found: its state.
        advice: the next step; empty if there is none.

    """

    verdict: Verdict
    code: str
    subject: str
    found: str
    advice: str = ""


class Findings:
    """Collects findings in order."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def ok(self, subject: str, found: str) -> None:
        """Add a correct part."""
        self._add(Verdict.OK, "as_expected", subject, found)

    def wrong(self, code: str, subject: str, found: str, advice: str) -> None:
        """Add a problem."""
        self._add(Verdict.WRONG, code, subject, found, advice)

    def unknown(self, code: str, subject: str, found: str, advice: str) -> None:
        """Add a part that could not be read."""
        self._add(Verdict.UNKNOWN, code, subject, found, advice)

    def note(self, code: str, subject: str, found: str) -> None:
        """Add a consequence that is easy to miss."""
        self._add(Verdict.NOTE, code, subject, found)

    def expect(self, subject: str, found: str, problems: list[Problem]) -> None:
        """Add each problem with its advice; without problems, add the state as correct."""
        for problem in problems:
            self.wrong(problem.code, subject, problem.text, problem.advice)
        if not problems:
            self.ok(subject, found)

    def ask(
        self,
        subject: str,
        read: Callable[[], T],
        *,
        right: str,
        if_gone: str = "deploy the stack again: lanes cdk deploy",
    ) -> T | None:
        """
        Read a part; if that fails, add a finding and return None.

        Args:
            subject: the part.
            read: reads it.
            right: the required IAM action.
            if_gone: the next step if it does not exist.
        """
        try:
            return read()
        except AwsError as error:
            # A missing resource is a finding; any other error leaves the question open.
            if any(word in error.code for word in GONE):
                self.wrong("missing", subject, f"does not exist ({error.code})", if_gone)
            else:
                denied = any(word in error.code for word in DENIED)
                advice = f"the caller needs {right}" if denied else f"try again; it needs {right}"
                code = "not_allowed" if denied else "unreadable"
                self.unknown(code, subject, f"could not be read: {_first_line(error)}", advice)
            return None

    def _add(self, verdict: Verdict, code: str, subject: str, found: str, advice: str = "") -> None:
        self.all.append(Finding(verdict=verdict, code=code, subject=subject, found=found, advice=advice))


def _first_line(error: AwsError) -> str:
    line = str(error).splitlines()[0]
    return line if len(line) <= 160 else f"{line[:157]}..."  # noqa: PLR2004 - a line that fits a screen


class Check:
    """
    Checks one deployment; only reads.

    Args:
        deployment: the deployment document.
        state: the deployed resources.
    """

    def __init__(self, *, deployment: Deployment, state: DeployedState) -> None:
        self._deployment = deployment
        self._config = deployment.config
        self._state = state
        self._findings = Findings()

    def run(self) -> list[Finding]:
        """Check everything once."""
        arns: set[str] = set()
        others: set[str] = set()
        for lane in self._config.lanes:
            self._queues(lane)
            if self._deployment.bell is None:
                arns |= self._mapping(lane)
            others |= self._other_functions(lane)
        if self._deployment.bell is not None:
            arns |= self._bell(self._deployment.bell)
        self._pauses()
        self._leftovers()
        self._foreign_mappings(sorted(arns))
        self._functions(sorted(arns | others))
        return self._findings.all

    def _queues(self, lane: Lane) -> None:
        urls = self._deployment.queues[lane.name]
        subject, dead_subject = f"{lane.name} queue", f"{lane.name} dead-letter queue"
        ask = partial(
            self._findings.ask,
            right="sqs:GetQueueAttributes on it",
            if_gone=rules.GONE if urls.existing else rules.DEPLOY,
        )
        queue = ask(subject, partial(self._state.queue, urls.url))
        if queue is not None:
            found = f"hides for {queue.get('VisibilityTimeout')} s, keeps {rules.kept_for(queue)}"
            self._findings.expect(subject, found, self._queue_problems(lane, queue))
        dead = ask(dead_subject, partial(self._state.queue, urls.dead_letter_url))
        if dead is not None:
            problems = rules.existing_queue_problems(dead) if urls.existing else rules.queue_problems(dead)
            problems += rules.dead_letter_problems(
                queue or {},
                dead,
                max_attempts=self._config.consumer.max_attempts,
                advice=rules.OWNER if urls.existing else rules.DEPLOY,
            )
            self._findings.expect(dead_subject, f"keeps {rules.kept_for(dead)}", problems)
        if lane.closing and queue is not None and dead is not None:
            left, letters = rules.messages_in(queue), rules.messages_in(dead)
            advice = "" if left or letters else "; remove it from lanes.toml, then deploy"
            self._findings.note(
                "closing",
                f"{lane.name} lane",
                f"it is closing: {left} messages and {letters} dead letters are left{advice}",
            )

    def _queue_problems(self, lane: Lane, queue: Mapping[str, str]) -> rules.Problems:
        if not self._deployment.queues[lane.name].existing:
            return [
                *rules.queue_problems(queue),
                *rules.visibility_problems(lane, queue),
            ]
        for note in rules.existing_queue_notes(queue):
            self._findings.note("existing_queue", f"{lane.name} queue", note)
        return [
            *rules.existing_queue_problems(queue),
            *rules.existing_visibility_problems(lane, queue),
        ]

    def _leftovers(self) -> None:
        """Check the queues of removed lanes, which CloudFormation keeps."""
        prefix = rules.queue_prefix(self._deployment)
        if prefix is None:
            return
        found = self._findings.ask(
            "removed lanes", partial(self._state.queues, prefix), right="sqs:ListQueues"
        )
        for url in sorted(found or ()):
            name = rules.name_of(url)
            if name in rules.known_queues(self._deployment):
                continue
            subject = "removed lane"
            queue = self._findings.ask(
                subject, partial(self._state.queue, url), right="sqs:GetQueueAttributes on it"
            )
            if queue is not None and rules.messages_in(queue):
                text = f"{name} holds {rules.messages_in(queue)} messages, and no lane reads it"
                self._findings.wrong("messages_left", subject, text, rules.RESCUE)
            elif queue is not None:
                text = f"{name} is empty and no lane reads it; delete it"
                self._findings.note("empty_queue_left", subject, text)

    def _mapping(self, lane: Lane) -> set[str]:
        subject = f"{lane.name} mapping"
        read = partial(self._state.mappings.of_lane, lane.name)
        return self._mappings(subject, read, partial(rules.lane_mapping_problems, lane))

    def _other_functions(self, lane: Lane) -> set[str]:
        """Report mappings of other functions on a lane's queue; return these functions."""
        subject = f"{lane.name} mapping"
        read = partial(self._state.mappings.others, lane.name)
        right = "lambda:ListEventSourceMappings and lambda:GetFunctionConfiguration"
        found = self._findings.ask(subject, read, right=right) or ()
        active = [mapping for mapping in found if mapping.state != DISABLED]
        for code, text, advice in map(rules.other_function_problem, active):
            self._findings.wrong(code, subject, text, advice)
        for mapping in found:
            if mapping.state == DISABLED:
                text = rules.disabled_other_mapping(mapping)
                self._findings.note("other_mapping_disabled", subject, text)
        return {mapping.function_arn for mapping in active}

    def _foreign_mappings(self, arns: Sequence[str]) -> None:
        """Report mappings from other queues, or streams, to the consumer."""
        for arn in arns:
            read = partial(self._state.mappings.of_function, arn)
            found = self._findings.ask("function", read, right="lambda:ListEventSourceMappings")
            for code, text, advice in rules.foreign_mapping_problems(self._deployment, found or ()):
                self._findings.wrong(code, "function", text, advice)
            for text in rules.disabled_foreign_mappings(self._deployment, found or ()):
                self._findings.note("foreign_mapping_disabled", "function", text)

    def _mappings(
        self,
        subject: str,
        read: Callable[[], Sequence[LaneMapping]],
        problems: Callable[[LaneMapping], rules.Problems],
    ) -> set[str]:
        """Check the one mapping of a queue; return its function."""
        found = self._findings.ask(subject, read, right="lambda:ListEventSourceMappings")
        if found is None:
            return set()
        if len(found) != 1:
            text = f"{len(found) or 'no'} mappings serve it; there must be exactly one"
            advice = "deploy again, and delete mappings from outside the stack"
            self._findings.wrong("mapping_count", subject, text, advice)
        for mapping in found:
            most = mapping.maximum_concurrency
            text = f"{mapping.state}, batches of {mapping.batch_size}, at most {most} at once"
            self._findings.expect(subject, text, problems(mapping))
        return {mapping.function_arn for mapping in found}

    def _bell(self, url: str) -> set[str]:
        queue = self._findings.ask(
            "bell", partial(self._state.queue, url), right="sqs:GetQueueAttributes on it"
        )
        if queue is not None:
            found = f"hides for {queue.get('VisibilityTimeout')} s"
            self._findings.expect("bell", found, rules.bell_problems(self._config, queue))
        problems = partial(rules.bell_mapping_problems, self._config)
        before = len(self._findings.all)
        arns = self._mappings("bell mapping", self._state.mappings.of_bell, problems)
        # With a bell that is missing or disabled, each lane would be reported as paused.
        if all(finding.verdict is Verdict.OK for finding in self._findings.all[before:]):
            for lane in self._config.lanes:
                self._pause(lane)
        return arns

    def _pause(self, lane: Lane) -> None:
        read = partial(self._state.mappings.of_lane, lane.name)
        found = self._findings.ask(f"{lane.name} lane", read, right="dynamodb:GetItem on the table")
        if found is not None:
            problems = rules.pause_problems(lane, found)
            self._findings.expect(f"{lane.name} lane", "slots receive from it", problems)

    def _pauses(self) -> None:
        """Check that each lane that an operator has paused is still paused."""
        right = "dynamodb:Query on the table's index"
        switches = self._findings.ask("pauses", self._state.switches, right=right)
        if not switches:
            return
        for lane in self._config.lanes:
            read = partial(self._state.mappings.of_lane, lane.name)
            found = self._findings.ask("pauses", read, right="lambda:ListEventSourceMappings")
            for code, text, advice in rules.resumed_problems(lane, found or (), switches):
                self._findings.wrong(code, f"{lane.name} lane", text, advice)

    def _functions(self, arns: Sequence[str]) -> None:
        if len(arns) > 1:
            text = f"lanes feed {len(arns)} functions: {arns}"
            self._findings.wrong("several_functions", "function", text, rules.DEPLOY)
        right = "lambda:GetFunctionConfiguration and lambda:GetFunctionConcurrency"
        for arn in arns:
            function = self._findings.ask("function", partial(self._state.function, arn), right=right)
            # The older function of an existing queue, beside that of the lanes, is reported above and not compared.
            if function is not None and (len(arns) == 1 or VARIABLE in function.variables):
                text = f"{function.reserved_concurrency} at once"
                self._findings.expect("function", text, rules.function_problems(self._config, function))
