"""A graph attention layer on a list of edges, and a network of graph convolutions."""

import torch
from torch import nn
from torch.nn import functional as F


class GCNLayer(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.lin = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.zeros(x.size(0)).scatter_add_(0, col, torch.ones(col.size(0)))
        deg_inv_sqrt = deg.clamp(min=1).pow(-0.5)
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        messages = norm.unsqueeze(-1) * self.lin(x)[row]
        out = torch.zeros(x.size(0), messages.size(-1)).index_add(0, col, messages)
        return out + self.bias


class GCN(nn.Module):
    def __init__(self, n_features=8, hidden=16, n_classes=3):
        super().__init__()
        self.conv1 = GCNLayer(n_features, hidden)
        self.conv2 = GCNLayer(hidden, n_classes)

    def forward(self, x, edge_index):
        h = F.relu(self.conv1(x, edge_index))
        logits = self.conv2(h, edge_index)
        return F.log_softmax(logits, dim=1)


def example():
    return GCN(), (torch.randn(10, 8), torch.randint(0, 10, (2, 24)))
