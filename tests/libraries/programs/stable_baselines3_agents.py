"""stable-baselines3: PPO, A2C, DQN, SAC, TD3 on a small world."""

import gymnasium as gym
import numpy as np
import torch
from showing import show
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3


class Walk(gym.Env):
    """A point on a line that should stay near zero."""

    def __init__(self, discrete):
        self.observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)
        self.action_space = (
            gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-1, 1, (1,), np.float32)
        )
        self.discrete = discrete

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.normal(size=2).astype(np.float32), 0
        return self.state, {}

    def step(self, action):
        force = float(action) - 1 if self.discrete else float(action[0])
        self.state = np.clip(
            self.state + np.array([self.state[1] * 0.1, force * 0.2], np.float32), -5, 5
        ).astype(np.float32)
        self.time += 1
        return self.state, -float(abs(self.state[0])), False, self.time >= 20, {}


small = dict(seed=0, device="cpu", verbose=0)
AGENTS = {
    "PPO": (PPO, True, dict(n_steps=32, batch_size=16, n_epochs=2)),
    "A2C": (A2C, True, dict(n_steps=8)),
    "DQN": (
        DQN,
        True,
        dict(learning_starts=20, buffer_size=200, batch_size=16, target_update_interval=20),
    ),
    "SAC": (SAC, False, dict(learning_starts=20, buffer_size=200, batch_size=16)),
    "TD3": (TD3, False, dict(learning_starts=20, buffer_size=200, batch_size=16)),
    "PPO continuous": (PPO, False, dict(n_steps=32, batch_size=16, n_epochs=2)),
}
torch.set_num_threads(1)
for name, (kind, discrete, options) in AGENTS.items():
    agent = kind("MlpPolicy", Walk(discrete), policy_kwargs=dict(net_arch=[16]), **options, **small)
    agent.learn(64)
    observation = np.array([[0.5, -0.2], [1.0, 0.3]], np.float32)
    action, _ = agent.predict(observation, deterministic=True)
    total = sum(p.detach().abs().sum().item() for p in agent.policy.parameters())
    show(name, agent.num_timesteps, total, np.asarray(action, np.float64))
agent.save("/tmp/sb3_agent.zip")
show(
    "loaded",
    kind.load("/tmp/sb3_agent.zip", device="cpu")
    .predict(observation, deterministic=True)[0]
    .astype(np.float64),
)
