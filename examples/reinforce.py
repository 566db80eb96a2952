"""Reinforcement learning: a cart learns to keep a pole upright.

The cart is simulated right here, a whole batch of carts at a time, as tensors. An actor draws
pushes to the left or to the right, a critic guesses how long the pole will stay up; both learn from
what came of it (advantage actor-critic). A run is solved when poles stay up 195 steps on average.
"""

import argparse
import math
import time

import flambeau as torch
from flambeau import nn
from flambeau.distributions import Categorical


class Carts:
    """Many carts, each with a pole on it. State: place, speed, angle and its speed."""

    gravity, cart, pole, half_length, force, dt = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, count, longest):
        self.count, self.longest = count, longest

    def reset(self):
        self.state = torch.empty(self.count, 4).uniform_(-0.05, 0.05)
        self.alive = torch.ones(self.count, dtype=torch.bool)
        return self.state

    def step(self, action):
        """Push every cart; returns states, and which poles still stood before the push."""
        x, speed, angle, turning = self.state.unbind(1)
        push = torch.where(action == 1, self.force, -self.force)
        sine, cosine = angle.sin(), angle.cos()
        mass, moment = self.cart + self.pole, self.pole * self.half_length
        pull = (push + moment * turning.square() * sine) / mass
        bend = (self.gravity * sine - cosine * pull) / (
            self.half_length * (4 / 3 - self.pole * cosine.square() / mass)
        )
        gain = pull - moment * bend * cosine / mass
        moved = torch.stack(
            [
                x + self.dt * speed,
                speed + self.dt * gain,
                angle + self.dt * turning,
                turning + self.dt * bend,
            ],
            dim=1,
        )
        standing = self.alive.clone()
        self.state = torch.where(standing[:, None], moved, self.state)
        fine = (self.state[:, 0].abs() < 2.4) & (self.state[:, 2].abs() < math.radians(12))
        self.alive &= fine
        return self.state, standing


class ActorCritic(nn.Module):
    """One body, two heads."""

    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)
        nn.init.zeros_(self.actor.weight)

    def forward(self, state):
        x = self.body(state)
        return Categorical(logits=self.actor(x)), self.critic(x).squeeze(-1)


def play(model, carts):
    """One game of every cart: log-probabilities, values, entropies and rewards, (steps, carts)."""
    state = carts.reset()
    records = []
    for _ in range(carts.longest):
        choice, value = model(state)
        action = choice.sample()
        state, standing = carts.step(action)
        records.append((choice.log_prob(action), value, choice.entropy(), standing.float()))
        if not carts.alive.any():
            break
    return [torch.stack(column) for column in zip(*records)]


def returns_of(rewards, discount):
    """What is still to come at every step, later rewards counting less."""
    total = torch.zeros_like(rewards[0])
    result = []
    for reward in reversed(rewards.unbind(0)):
        total = reward + discount * total
        result.append(total)
    return torch.stack(result[::-1])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=150, help="updates at most")
    parser.add_argument("--carts", type=int, default=16)
    parser.add_argument("--longest", type=int, default=200, help="steps in a game")
    parser.add_argument("--discount", type=float, default=0.98)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few and short games")
    options = parser.parse_args(arguments)
    if options.quick:
        options.games, options.longest = 12, 60
    torch.manual_seed(options.seed)

    model, carts = ActorCritic(), Carts(options.carts, options.longest)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    begin, lengths = time.perf_counter(), []
    for game in range(1, options.games + 1):
        log_probability, value, entropy, standing = play(model, carts)
        wanted = returns_of(standing, options.discount)
        advantage = (wanted - value.detach()) * standing
        advantage = advantage / (advantage[standing.bool()].std() + 1e-6)
        steps = standing.sum()
        actor_loss = -(log_probability * advantage).sum() / steps
        critic_loss = ((wanted - value).square() * standing).sum() / steps
        loss = actor_loss + 0.01 * critic_loss - 0.01 * (entropy * standing).sum() / steps
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        lengths.append(standing.sum(0).mean().item())
        recent = sum(lengths[-5:]) / len(lengths[-5:])
        if game == 1 or game % 10 == 0:
            seconds = time.perf_counter() - begin
            print(f"game {game:3d}  poles stand {recent:6.1f} steps  {seconds:5.1f} s")
        if recent >= 195:
            print(f"solved after {game} games: poles stand {recent:.1f} of {options.longest} steps")
            break
    return recent


if __name__ == "__main__":
    main()
