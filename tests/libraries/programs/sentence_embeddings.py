"""sentence-transformers: a model of modules made by hand, pooling, losses, similarity."""

import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer, losses, util
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from showing import gradients, show
from transformers import BertConfig, BertModel, BertTokenizerFast

words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "cat",
    "dog",
    "sat",
    "on",
    "the",
    "mat",
    "ran",
    "fast",
]
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=32,
        )
    ).save_pretrained(folder)
    BertTokenizerFast(folder + "/vocab.txt").save_pretrained(folder)
    encoder = Transformer(folder, max_seq_length=16)
    torch.manual_seed(1)
    model = SentenceTransformer(
        modules=[encoder, Pooling(32, "mean"), Dense(32, 16), Normalize()], device="cpu"
    )
    texts = ["the cat sat on the mat", "a dog ran fast", "the cat ran"]
    vectors = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
    show("vectors", vectors, model.similarity(vectors, vectors))
    show(
        "search",
        [
            [hit["corpus_id"] for hit in hits]
            for hits in util.semantic_search(vectors[:1], vectors, top_k=2)
        ],
    )
    model.eval()
    features = [dict(model.tokenize(texts)) for _ in range(2)]
    for loss in (
        losses.MultipleNegativesRankingLoss(model),
        losses.CosineSimilarityLoss(model),
        losses.CoSENTLoss(model),
    ):
        model.zero_grad()
        value = loss([dict(f) for f in features], torch.tensor([1.0, 0.2, 0.5]))
        value.backward()
        show(type(loss).__name__, value, gradients(model))
    model.save(folder + "/saved")
    show("again", SentenceTransformer(folder + "/saved", device="cpu").encode(texts[:1]))
