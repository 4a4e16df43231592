"""Random conversations, and chat templates of our own that do what published ones do."""

import random

# Turns between markers, system message optional.
MARKERS = """{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

# Roles must alternate; the system message goes into the first user turn.
ALTERNATING = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim + '\\n\\n' %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate user/assistant, but turn ' ~ loop.index ~ ' is ' ~ message['role']) }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- '[ASK] ' + (system_message if loop.first else '') + message['content'] | trim + ' [/ASK]' }}
    {%- elif message['role'] == 'assistant' %}
        {% generation %}{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
"""

# Tools as JSON, tool calls, results joined into one turn, reasoning cut from earlier answers.
TOOLS = """{%- macro call(tool_call) -%}
    {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif -%}
    <call>{"name": "{{ tool_call.name }}", "arguments": {{ tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}}</call>
{%- endmacro -%}
{%- if tools %}
    {{- '<|sys|>\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'Tools:' }}
    {%- for tool in tools %}
        {{- '\\n' ~ (tool | tojson(indent=2)) }}
    {%- endfor %}
    {{- '<|end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|sys|>\\n' + messages[0].content + '<|end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last_query=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == 'user' and message.content is string and not (message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.found = true %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|' + message.role + '|>\\n' + content + '<|end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or thoughts) %}
            {{- '<|assistant|>\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|assistant|>\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if (loop.first and content) or not loop.first %}{{- '\\n' }}{%- endif %}
            {{- call(tool_call) }}
        {%- endfor %}
        {{- '<|end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{- '<|user|>' }}{%- endif %}
        {{- '\\n<result>\\n' ~ message.content ~ '\\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

# Parts of several kinds, numbered pictures, a date, a typed signature of every tool.
PARTS = """{% set pictures = namespace(value=0) %}{% macro signature(parameters, required) -%}
{%- for name, schema in parameters.items() %}
{{ name }}{{ '' if name in required else '?' }}: {{ schema.type | default('any') }}{% if schema.enum %} = {{ schema.enum | map('tojson') | join(' | ') }}{% endif %}{% if not loop.last %}, {% endif %}
{%- endfor %}
{%- endmacro %}
{% if tools is not none and tools %}
## Tools
{% for tool in tools | map(attribute='function') | sort(attribute='name') %}
- {{ tool.name | upper }}({{ signature(tool.parameters.properties, tool.parameters.required | default([])) }}): {{ tool.description | default('', true) | trim | indent(4) }}
{% endfor %}
{% endif %}
Today: {{ date_string | default(strftime_now('%d %b %Y, %A')) }}
{% for message in messages if message.role != 'tool' %}
    {% if loop.first and message.role != 'system' %}system: default{{ '\\n' }}{% endif %}
    {{- message.role | title }}: {% if message.content is string %}{{ message.content }}{% elif message.content is iterable and message.content is not none %}
    {%- for part in message.content %}
        {%- if part.type == 'image' or 'image' in part or 'image_url' in part %}{% set pictures.value = pictures.value + 1 %}Picture {{ pictures.value }}: <image>
        {%- elif 'text' in part %}{{ part['text'] }}{% endif %}
    {%- endfor %}
    {%- endif %}{{ '\\n' if not loop.last }}
{% else %}
nothing was said
{% endfor %}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} asked, {{ messages | rejectattr('tool_calls', 'defined') | map(attribute='role') | unique | join(', ') }}"""

TEMPLATES = {"markers": MARKERS, "alternating": ALTERNATING, "tools": TOOLS, "parts": PARTS}

TEXTS = ["Hi!", "  What's <b>new</b>? ", "Erzähl mir etwas über Käse.", "你好，世界", "a\n\nb\n", "", "{{ not a tag }} {% nor this %}", "<think>\nhm\n</think>\n\nYes.", "</think>half", "\u00a0\u3000trim me\u2028", "emoji 👩‍👩‍👧 ok", '"quoted" \\ back', "<result>x</result>"]


class Conversation:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, chance):
        return self.random.random() < chance

    def text(self):
        return self.random.choice(TEXTS)

    def json_value(self, depth=2):
        kind = self.random.randrange(8 if depth else 6)
        if kind == 6:
            return [self.json_value(depth - 1) for _ in range(self.random.randrange(3))]
        if kind == 7:
            return {self.random.choice("abcdé"): self.json_value(depth - 1) for _ in range(self.random.randrange(3))}
        return [None, True, 12345678901234567890123, self.random.choice([0.1, 1e16, -0.0, 1e-7, 3.0]), self.text(), self.random.randrange(-5, 100)][kind]

    def content(self):
        if self.maybe(0.75):
            return self.text()
        if self.maybe(0.2):
            return None
        return [self.random.choice([{"type": "text", "text": self.text()}, {"type": "image"}, {"type": "image_url", "image_url": {"url": "x"}}]) for _ in range(self.random.randrange(3))]

    def message(self, role):
        message = {"role": role, "content": self.content()}
        if role == "assistant" and self.maybe(0.3):
            message["tool_calls"] = [{"id": "call00001", "type": "function", "function": {"name": "find", "arguments": self.random.choice([{"q": self.json_value()}, '{"q": 1}'])}} for _ in range(self.random.randrange(1, 3))]
        if role == "assistant" and self.maybe(0.2):
            message["reasoning_content"] = self.text()
        if self.maybe(0.05):
            del message["content"]
        return message

    def tool(self):
        name = self.random.choice(["find", "add", "Get_Weather"])
        properties = {key: {"type": self.random.choice(["string", "integer"]), **({"enum": ["a", 1]} if self.maybe(0.3) else {})} for key in self.random.sample("xyz", self.random.randrange(3))}
        function = {"name": name, "description": self.text(), "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}
        return {"type": "function", "function": function}

    def variables(self):
        roles = ["user", "assistant"] * self.random.randrange(1, 4)
        if self.maybe(0.4):
            roles.insert(0, "system")
        if self.maybe(0.3):
            roles.insert(self.random.randrange(len(roles)), "tool")
        if self.maybe(0.2):
            self.random.shuffle(roles)
        result = {"messages": [self.message(role) for role in roles[: self.random.randrange(1, len(roles) + 1)]], "add_generation_prompt": self.maybe(0.5)}
        if self.maybe(0.5):
            result["tools"] = self.random.choice([None, [], [self.tool()], [self.tool(), self.tool()]])
        if self.maybe(0.8):
            result.update(bos_token="<s>", eos_token="</s>")
        if self.maybe(0.3):
            result["enable_thinking"] = self.maybe(0.5)
        if self.maybe(0.2):
            result["date_string"] = "1 Jan 2000"
        return result
