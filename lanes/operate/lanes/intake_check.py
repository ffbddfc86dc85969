"""The checks of intakes: the queue from which each forwards, its mapping and its function."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from lanes.config.deployment import VARIABLE, Deployment
from lanes.config.table import format_duration
from lanes.errors import ConfigurationError
from lanes.operate.lanes import check_rules as rules
from lanes.operate.lanes import queue_rules
from lanes.operate.lanes.mappings import DISABLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.operate.lanes.deployed import DeployedState, FunctionState
    from lanes.operate.lanes.findings import Findings
    from lanes.operate.lanes.mappings import LaneMapping

RECEIVES = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
RECEIVES_KEY = ("kms:Decrypt",)
DEPLOY = "deploy the stack of the intake again: cdk deploy"
OWNER = "change it where the queue is defined; that of an intake by deploying it again"
LONGEST_VISIBILITY = timedelta(minutes=4)
"""
Longer than an invocation, and shorter than the five minutes in which a lane drops a message that is forwarded twice
(SQS Developer Guide, "Using the message deduplication ID").
"""
SHORT_OUTAGE = timedelta(days=1)
"""A dead-letter queue that takes messages after less is worth a note."""

Used = list[tuple["Sequence[str]", str]]


class IntakeCheck:
    """
    Checks the intakes of a deployment; only reads.

    Args:
        deployment: the deployment document.
        state: the deployed resources.
        findings: receives the findings.
    """

    def __init__(self, *, deployment: Deployment, state: DeployedState, findings: Findings) -> None:
        self._deployment = deployment
        self._state = state
        self._findings = findings

    def run(self) -> list[tuple[FunctionState, Used]]:
        """Check all; return the functions that could be read, each with the rights that it needs on its queues."""
        ask, found = self._findings.ask, []
        right = "lambda:ListFunctions"
        for arn in ask("intakes", self._state.intakes, right=right) or ():
            name = rules.name_of(arn, ":")
            read = partial(self._state.mappings.of_function, arn)
            mappings = ask("intake mapping", read, right="lambda:ListEventSourceMappings")
            if mappings is None:
                continue
            if not mappings:
                text = f"{name}: no mapping serves it: it forwards nothing"
                self._findings.wrong("mapping_count", "intake mapping", text, DEPLOY)
            function = ask(
                "intake function",
                partial(self._state.function, mappings[0].function_arn if mappings else arn),
                right="lambda:GetFunctionConfiguration and lambda:GetFunctionConcurrency",
            )
            used: Used = []
            for mapping in mappings:
                self._mapping(mapping)
                self._queue(mapping, function, used)
            if function is not None:
                text = f"{name}: {format_duration(function.timeout)} each"
                problems = function_problems(self._deployment, function)
                self._expect("intake function", name, text, problems)
                found.append((function, used))
        return found

    def _mapping(self, mapping: LaneMapping) -> None:
        name, subject = rules.name_of(mapping.source_arn, ":"), "intake mapping"
        most = mapping.maximum_concurrency
        text = f"{name}: {mapping.state}, batches of {mapping.batch_size}, at most {most} at once"
        enable = f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --enabled"
        disabled = rules.Problem("disabled", "it is disabled: it forwards nothing", enable)
        self._expect(subject, name, text, rules.serving_problems(mapping, disabled=disabled, deploy=DEPLOY))
        read = partial(self._state.mappings.of_source, mapping.source_arn)
        others = self._findings.ask(subject, read, right="lambda:ListEventSourceMappings") or ()
        for other in others:
            if other.function_name != mapping.function_name and other.state != DISABLED:
                problem = rules.other_function_problem(other, consumer="the intake")
                self._expect(subject, name, "", [problem])

    def _queue(self, mapping: LaneMapping, function: FunctionState | None, used: Used) -> None:
        name, subject = rules.name_of(mapping.source_arn, ":"), "intake queue"
        right = "sqs:GetQueueUrl and sqs:GetQueueAttributes on it"
        queue = self._findings.ask(
            subject,
            partial(self._state.queue_of, mapping.source_arn),
            right=right,
            if_gone=f"restore {name} where it was defined, or {DEPLOY}",
        )
        if queue is None:
            return
        text = f"{name}: hides for {queue.get('VisibilityTimeout')} s, keeps {queue_rules.kept_for(queue)}"
        self._expect(subject, name, text, queue_problems(queue, function))
        for note in queue_notes(queue):
            self._findings.note("intake_queue", subject, f"{name}: {note}")
        used.append((RECEIVES, mapping.source_arn))
        if (key := queue_rules.key_of(queue)) is not None:
            used.append((RECEIVES_KEY, key))
        target = dead_letter_arn(queue)
        if target:
            subject = "intake dead-letter queue"
            letters = self._findings.ask(
                subject,
                partial(self._state.queue_of, target),
                right=right,
                if_gone=f"restore {rules.name_of(target, ':')} where it was defined, or {DEPLOY}",
            )
            if letters is not None:
                kept = f"{name}: keeps {queue_rules.kept_for(letters)}"
                self._expect(subject, name, kept, dead_letter_problems(queue, letters))

    def _expect(self, subject: str, name: str, found: str, problems: rules.Problems) -> None:
        named = [problem._replace(text=f"{name}: {problem.text}") for problem in problems]
        self._findings.expect(subject, found, named)


def function_problems(deployment: Deployment, function: FunctionState) -> rules.Problems:
    """Compare the function of an intake with the deployment document."""
    problems = []
    if function.reserved_concurrency == 0:
        problems.append(
            rules.Problem("nothing_runs", "reserved concurrency is 0: it forwards nothing", DEPLOY)
        )
    try:
        same = _destinations(Deployment.from_env(function.variables)) == _destinations(deployment)
    except ConfigurationError:
        same = False
    if not same:
        text = f"its {VARIABLE} differs from the stack's parameter: it may send to other lanes"
        problems.append(rules.Problem("document_differs", text, DEPLOY))
    return problems


def _destinations(deployment: Deployment) -> object:
    """Return what decides on the queue of a message, and on its ring."""
    config = deployment.config
    lanes = [(lane.name, lane.threshold, lane.closing) for lane in config.lanes]
    return config.enabled, lanes, deployment.queues, deployment.bell


def queue_problems(queue: Mapping[str, str], function: FunctionState | None) -> rules.Problems:
    """Compare the queue of an intake with its function, if that is known; FIFO and standard queues are fine."""
    problems = queue_rules.encryption_problems(queue, OWNER)
    hides = timedelta(seconds=int(queue.get("VisibilityTimeout", 0)))
    text = f"visibility timeout is {hides.total_seconds():g} s, "
    if function is not None and hides < function.timeout:
        text += f"below the {function.timeout.total_seconds():g} s of its function: a batch could come twice"
        problems.append(rules.Problem("visibility_timeout_short", text, OWNER))
    elif hides > LONGEST_VISIBILITY:
        text += (
            f"above {LONGEST_VISIBILITY.total_seconds():g} s: a message that is forwarded again may come after the "
            "five minutes in which its lane drops the repeat"
        )
        problems.append(rules.Problem("visibility_timeout_long", text, OWNER))
    return problems


def queue_notes(queue: Mapping[str, str]) -> list[str]:
    """Return what the settings of an intake's queue mean for its messages."""
    notes = []
    is_fifo = queue.get("FifoQueue") == "true"
    if is_fifo and queue.get("ContentBasedDeduplication") != "true":
        notes.append(
            "ContentBasedDeduplication is false: SQS refuses a message without a deduplication id, such as one of "
            "EventBridge"
        )
    policy = json.loads(queue.get("RedrivePolicy") or "{}")
    receives, hides = int(policy.get("maxReceiveCount", 0)), int(queue.get("VisibilityTimeout", 0))
    if not policy:
        notes.append(
            f"it has no dead-letter queue: a message that can't be forwarded is lost after its "
            f"{queue_rules.kept_for(queue).removeprefix('messages ')}"
        )
    elif (bears := timedelta(seconds=receives * hides)) < SHORT_OUTAGE:
        notes.append(
            f"SQS moves a message to its dead-letter queue after {receives} receives: it bears an outage of the lanes "
            f"of {format_duration(bears)}"
        )
    return notes


def dead_letter_arn(queue: Mapping[str, str]) -> str:
    """Return the ARN of a queue's dead-letter queue; empty without one."""
    return str(json.loads(queue.get("RedrivePolicy") or "{}").get("deadLetterTargetArn", ""))


def dead_letter_problems(queue: Mapping[str, str], letters: Mapping[str, str]) -> rules.Problems:
    """Compare the dead-letter queue of an intake with its queue."""
    problems = queue_rules.encryption_problems(letters, OWNER)
    return problems + queue_rules.retention_problems(queue, letters, of="the intake's queue", advice=OWNER)
