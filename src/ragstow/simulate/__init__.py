"""Sets of pods over time: queue, cycles, preemption, rollouts, drains. Decides nothing itself: scheduling does."""
