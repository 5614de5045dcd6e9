"""`turnwright answer`: the user's word to a running turn that asks, from another terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.speaking import answer, open_questions
from turnwright.cli.asking import chosen_of
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.kernel.ports import Question
from turnwright.schema.errors import InputError
from turnwright.views.text import Line, Span, line, one_line, safe


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("text", nargs="?", help="the answer: free words, or a choice by its number or its beginning")
    parser.add_argument("--question", metavar="ID", help="which question, where several are open")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        conversation_id, questions = await open_questions(loaded, args.conversation)
        if args.text is None:
            return _list(questions, args.json)
        question = _meant(questions, args.question, conversation_id)
        said = args.text if not question.choices else chosen_of(args.text, question.choices)
        if said is None:
            raise InputError(
                f"{args.text!r} is not one of the choices of question {question.approval_id}.",
                remedy=f"Choose from: {', '.join(question.choices)}.",
            )
        await answer(loaded, question, said)
        if not args.json:
            print(f"Answered: {safe(said)}")
        return 0

    return asyncio.run(main())


def _meant(questions: tuple[Question, ...], approval_id: str | None, conversation_id: str) -> Question:
    """The one that is named, or the only one."""
    found = [each for each in questions if approval_id in (None, each.approval_id)]
    if not found:
        which = f"question {approval_id}" if approval_id else "question"
        raise InputError(f"No {which} is open in conversation {conversation_id}.")
    if len(found) > 1:
        raise InputError(
            f"{len(found)} questions are open in conversation {conversation_id}.",
            remedy=f"Say which with --question: {', '.join(each.approval_id for each in found)}.",
        )
    return found[0]


def _list(questions: tuple[Question, ...], as_json: bool) -> int:
    if as_json:
        for question in questions:
            sys.stdout.buffer.write(msgspec.json.encode(question) + b"\n")
        return 0
    Terminal(sys.stdout).lines(
        [told for question in questions for told in _lines(question)] or [line("Nothing is asked.")]
    )
    return 0


def _lines(question: Question) -> list[Line]:
    asks = f"{one_line(question.tool)}: " if question.tool else ""
    head = line(Span(question.approval_id, "heading"), f"  {asks}{one_line(question.text)}")
    return [head, *(line(f"  {number}  {one_line(choice)}") for number, choice in enumerate(question.choices, 1))]
