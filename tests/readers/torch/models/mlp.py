"""A multilayer perceptron with dropout and batch norm."""

import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self, n_in=12, n_hidden=32, n_out=5, p=0.2):
        super().__init__()
        self.fc1 = nn.Linear(n_in, n_hidden)
        self.bn = nn.BatchNorm1d(n_hidden)
        self.drop = nn.Dropout(p)
        self.fc2 = nn.Linear(n_hidden, n_out)

    def forward(self, features):
        hidden = F.relu(self.bn(self.fc1(features)))
        hidden = self.drop(hidden)
        logits = self.fc2(hidden)
        return F.log_softmax(logits, dim=-1)


def example():
    return MLP(), (torch.randn(6, 12),)
