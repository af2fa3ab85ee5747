"""Compare the route of chat completions with that of completions on one server.

    python -m perf.chat_route [--pairs 24] [--tokens 32]

vLLM's own server with the embedded model is started once. In each pair one prompt is sent twice, as
messages and as the token ids that the chat template renders, in reverse order in every other pair;
both answers are greedy, with at most `--tokens` tokens. Prints the ratios of TTFT and of tokens/s
(chat over completions): the geometric mean with Student's 95% interval, and the median. Pairs whose
answers differ are counted and left out. Prompts for which the server reports another number of
tokens are counted too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.features.chats.agent_sessions import load_sessions
from mlperf_suite.features.chats.chat import ChatRequest, Json
from mlperf_suite.features.chats.chat_client import ChatClient, ChatServer, ChatTurn
from mlperf_suite.features.chats.chat_prompts import EMBEDDED_TEMPLATE, ChatMessages, chats_of
from mlperf_suite.features.chats.token_chat import TokenChat, plain_answer
from mlperf_suite.features.servers.config import parse_endpoint
from perf.embedded_engine import embedded_endpoint, embedded_inputs
from perf.pairs import in_turn, middle, pairs_parser, print_header, print_row, ratio_interval
from scripts.local_servers import vllm_server

_WARM_UP = 3


def _rate(turn: ChatTurn) -> float:
    """The tokens/s of a turn, from its first byte sent to its end."""
    return (turn.tokens or 0) / turn.latency_s


def main() -> None:
    parser = pairs_parser(__doc__, pairs=24)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    inputs, prompt = embedded_inputs(), ChatMessages(EMBEDDED_TEMPLATE)
    prompts = [messages for messages, _ in chats_of(load_sessions("embedded").items)]
    loop = asyncio.new_event_loop()
    sampling = Generation(options.tokens)
    template = ("--chat-template", str(EMBEDDED_TEMPLATE))
    with (
        vllm_server(inputs.model_path, template) as server,
        embedded_endpoint(server) as engine,
    ):
        completions = TokenChat(
            engine,
            lambda messages, tools: prompt.tokens_of(messages, tools, inputs.tokenizer),
            inputs.tokenizer,
            inputs.eos_token_ids,
            plain_answer,
        )

        async def connect() -> ChatServer:
            return ChatClient(parse_endpoint(server.url), server.model, token_ids=True)

        servers = {"chat": loop.run_until_complete(connect()), "completions": completions}

        def ask(server: ChatServer, messages: Sequence[Json]) -> ChatTurn:
            request = ChatRequest(messages, sampling, timeout_s=300.0)
            return loop.run_until_complete(server.ask(request))

        for messages in prompts[:_WARM_UP]:
            for each in servers.values():
                ask(each, messages)
        ttfts, rates, unlike, miscounted = [], [], 0, 0
        print_header("pair", "chat TTFT, ms", "completions", "chat tokens/s", "completions")
        for number, messages in enumerate(islice(cycle(prompts), options.pairs), 1):
            sides: dict[str, Callable[[], ChatTurn]] = {
                name: partial(ask, each, messages) for name, each in servers.items()
            }
            (pair,) = in_turn(sides, 1, number)
            chat, other = pair.results["chat"], pair.results["completions"]
            if chat.failure or other.failure:
                raise SystemExit(chat.failure or other.failure)
            miscounted += chat.answer.prompt_tokens != other.answer.prompt_tokens
            if chat.answer.token_ids != other.answer.token_ids:
                unlike += 1
                continue
            assert chat.ttft_s and other.ttft_s
            times = [f"{turn.ttft_s * 1000:.1f}" for turn in (chat, other) if turn.ttft_s]
            print_row(number, *times, *(f"{_rate(turn):.2f}" for turn in (chat, other)))
            ttfts.append(chat.ttft_s / other.ttft_s)
            rates.append(_rate(chat) / _rate(other))
    print_row("mean ratio", ratio_interval(ttfts), "", ratio_interval(rates), "")
    print_row("median ratio", middle(ttfts), "", middle(rates), "")
    print(
        f"\n{unlike} pairs with different tokens left out; prompts with another count: {miscounted}"
    )


if __name__ == "__main__":
    main()
