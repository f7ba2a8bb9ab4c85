"""A tagger with an LSTM and a language model with a GRU."""

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
    return Tagger(), (torch.randint(0, 40, (2, 6)),)


def example_gru():
    return CharModel(), (torch.randint(0, 30, (5, 2)), torch.zeros(1, 2, 16))
