"""A language model of characters with a GRU."""

import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, n_chars=30, hidden_size=16):
        super().__init__()
        self.embed = nn.Embedding(n_chars, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.decoder = nn.Linear(hidden_size, n_chars)

    def forward(self, chars, hidden):
        embedded = self.embed(chars)
        output, hidden = self.gru(embedded, hidden)
        scores = self.decoder(output)
        return scores, hidden


def example():
    return CharModel(), (torch.randint(0, 30, (5, 2)), torch.zeros(1, 2, 16))
