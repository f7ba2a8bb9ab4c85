"""A tagger with a bidirectional LSTM."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, n_words=40, n_tags=7, dim=16, hidden_dim=12):
        super().__init__()
        self.embedding = nn.Embedding(n_words, dim)
        self.lstm = nn.LSTM(
            dim, hidden_dim, num_layers=2, batch_first=True, bidirectional=True
        )
        self.hidden2tag = nn.Linear(2 * hidden_dim, n_tags)

    def forward(self, sentences):
        embeds = self.embedding(sentences)
        lstm_out, (h_n, c_n) = self.lstm(embeds)
        tag_space = self.hidden2tag(lstm_out)
        return tag_space.log_softmax(dim=-1), h_n


def example():
    return Tagger(), (torch.randint(0, 40, (2, 6)),)
