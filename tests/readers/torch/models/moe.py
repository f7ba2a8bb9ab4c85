"""A mixture of experts: every token goes to the best two of them."""

import torch
from torch import nn
from torch.nn import functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim)
        self.w2 = nn.Linear(hidden_dim, dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class MoE(nn.Module):
    def __init__(self, dim=16, n_experts=4, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, 4 * dim) for _ in range(n_experts)])

    def forward(self, x):
        scores = self.gate(x)
        weights, chosen = torch.topk(scores, self.top_k, dim=-1)
        weights = F.softmax(weights, dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            gate = torch.where(chosen == i, weights, 0.0).sum(dim=-1, keepdim=True)
            out = out + gate * expert(x)
        return out


def example():
    return MoE(), (torch.randn(2, 6, 16),)
