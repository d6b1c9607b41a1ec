"""Text to tokens and back, and chat templates, from a model folder or a GGUF file."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as _Tokenizer

from toprope.serve.model.bad_weights import BadWeights
from toprope.serve.model.gguf import GgufFile

_CONTROL, _USER_DEFINED = 3, 4  # token types in GGUF metadata
_PLAIN_CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
# How text is cut before byte-pair merging, by the name in `tokenizer.ggml.pre`.
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a model folder or GGUF file; raises `BadWeights`."""
    return Tokenizer.from_folder(path) if path.is_dir() else Tokenizer.from_gguf(GgufFile(path))


class BadChat(Exception):
    """The chat template refused the messages; the message is the template's own."""


class Tokenizer:
    """`backend` does the work; the chat template is rendered in a sandbox, since it comes with the model file."""

    def __init__(
        self, backend: _Tokenizer, *, chat_template: str | None = None, specials: Mapping[str, str] | None = None
    ) -> None:
        self._backend = backend
        self._specials = dict(specials or {})
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self.template_text = chat_template or _PLAIN_CHAT
        self._template = environment.from_string(self.template_text)

    @classmethod
    def from_folder(cls, path: Path) -> Tokenizer:
        """From `tokenizer.json`, with `tokenizer_config.json` and `chat_template.jinja` where they exist."""
        file = path / "tokenizer.json"
        try:
            backend = _Tokenizer.from_file(str(file))
            config_file = path / "tokenizer_config.json"
            config = json.loads(config_file.read_text()) if config_file.exists() else {}
        except Exception as error:  # the backend raises plain Exception
            raise BadWeights(f"{file}: cannot be read: {error}") from None
        template = config.get("chat_template")
        if isinstance(template, list):
            template = next((t["template"] for t in template if t["name"] == "default"), None)
        if (path / "chat_template.jinja").exists():
            template = (path / "chat_template.jinja").read_text()
        names = ("bos_token", "eos_token", "pad_token", "unk_token")
        specials = {n: v if isinstance(v, str) else v["content"] for n in names if (v := config.get(n))}
        return cls(backend, chat_template=template, specials=specials)

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Tokenizer:
        """From the metadata of a GGUF file with a byte-pair tokenizer (`tokenizer.ggml.model = gpt2`)."""
        data = file.metadata
        if data.get("tokenizer.ggml.model") != "gpt2":
            kind = data.get("tokenizer.ggml.model")
            raise BadWeights(f"{file.path}: tokenizer {kind!r} is not supported; known: gpt2 (byte-pair encoding)")
        tokens, merges = data["tokenizer.ggml.tokens"], data["tokenizer.ggml.merges"]
        pairs = [tuple(merge.split(" ", 1)) for merge in merges]
        backend = _Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
        backend.pre_tokenizer = _pre_tokenizer(data.get("tokenizer.ggml.pre", "default"), file.path)
        backend.decoder = decoders.ByteLevel()
        for token, kind in zip(tokens, data.get("tokenizer.ggml.token_type", []), strict=False):
            if kind in (_CONTROL, _USER_DEFINED):
                added = AddedToken(token, special=kind == _CONTROL, normalized=False)
                (backend.add_special_tokens if kind == _CONTROL else backend.add_tokens)([added])
        ids = {f"{n}_token": data.get(f"tokenizer.ggml.{n}_token_id") for n in ("bos", "eos", "unknown")}
        specials = {name: tokens[i] for name, i in ids.items() if i is not None}
        if data.get("tokenizer.ggml.add_bos_token") and "bos_token" in specials:
            begin = specials["bos_token"]
            backend.post_processor = processors.TemplateProcessing(
                single=[begin, "$A"], special_tokens=[(begin, ids["bos_token"])]
            )
        return cls(backend, chat_template=data.get("tokenizer.chat_template"), specials=specials)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, specials included."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_specials: bool = True) -> list[int]:
        """Token ids of a text; `add_specials` puts a begin token where the model wants one."""
        return list(self._backend.encode(text, add_special_tokens=add_specials).ids)

    def decode(self, tokens: Sequence[int], *, skip_specials: bool = True) -> str:
        """Text of tokens; incomplete UTF-8 becomes the replacement character."""
        return str(self._backend.decode(list(tokens), skip_special_tokens=skip_specials))

    def as_json(self) -> str:
        """The tokenizer as the text of a `tokenizer.json`."""
        return str(self._backend.to_str())

    def token_text(self, token: int) -> str:
        """One token as text, specials shown."""
        return self.decode([token], skip_specials=False)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt for a conversation, ending where the assistant's turn begins; raises `BadChat`.

        `options` are further variables of the model's template, such as `enable_thinking`.
        """
        known = {**(options or {}), "messages": messages, "add_generation_prompt": True, "tools": tools}
        try:
            return self._template.render(**{**known, **self._specials})
        except (jinja2.TemplateError, TypeError) as error:
            raise BadChat(str(error)) from None


def _pre_tokenizer(name: str, path: Path) -> pre_tokenizers.PreTokenizer:
    level = pre_tokenizers.ByteLevel
    if name in ("smollm", "starcoder", "refact", "command-r"):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level(add_prefix_space=False)])
    if name in ("gpt-2", "default", "mpt", "olmo"):
        return level(add_prefix_space=False)
    split = {"llama-bpe": _LLAMA3_SPLIT, "llama3": _LLAMA3_SPLIT, "qwen2": _QWEN2_SPLIT}.get(name)
    if split is None:
        raise BadWeights(f"{path}: pre-tokenizer {name!r} is not supported; known: smollm, gpt-2, llama-bpe, qwen2")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False),
            level(add_prefix_space=False, use_regex=False),
        ]
    )


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
