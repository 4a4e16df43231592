"""LangChain's client for OpenAI, unmodified: a chat, a stream, an answer of a given form, a tool call and the answer to its result."""
from typing import Annotated

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field


@tool
def roll_dice(sides: Annotated[int, Field(ge=2, le=20)]) -> int:
    """Rolls a die with this many sides."""
    return sides


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)


@pytest.fixture
def chat(server):
    return ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="talker", max_tokens=120, temperature=0, max_retries=0)


def test_a_stream_has_the_text_of_a_whole_answer(chat):
    whole = chat.invoke("Tell me a story.")
    pieces = list(chat.stream("Tell me a story."))
    assert whole.content and "".join(piece.content for piece in pieces) == whole.content
    assert whole.usage_metadata["output_tokens"] == whole.response_metadata["token_usage"]["completion_tokens"] > 0


def test_a_tool_is_called_and_its_result_is_answered(chat):
    question = HumanMessage("Roll a die.")
    call = chat.bind_tools([roll_dice], tool_choice="roll_dice").invoke([question])
    assert [one["name"] for one in call.tool_calls] == ["roll_dice"]
    result = roll_dice.invoke(call.tool_calls[0])
    assert isinstance(result, ToolMessage) and int(result.content) == call.tool_calls[0]["args"]["sides"]
    answer = chat.bind_tools([roll_dice], tool_choice="none").invoke([question, call, result])
    assert answer.content and not answer.tool_calls


def test_an_answer_has_the_given_form(chat):
    person = chat.with_structured_output(Person, method="json_schema").invoke("Who are you?")
    assert isinstance(person, Person) and 0 <= person.age <= 150


def test_embeddings_of_texts(server):
    embeddings = OpenAIEmbeddings(base_url=server.url + "/v1", api_key="none", model="embedder", check_embedding_ctx_length=False)
    rows = embeddings.embed_documents(["a fox", "a bear"])
    assert len(rows) == 2 and rows[0] == embeddings.embed_query("a fox") != rows[1]
