"""A recipe as an environment of Gymnasium: one episode at a time, or many at once.

    registration.py   ids for gymnasium.make and gymnasium.make_vec, without anything heavy
    single.py         SchedulingEnv, a gymnasium.Env
    vector.py         SchedulingVectorEnv, a gymnasium.vector.VectorEnv in compiled code
    problem.py        windows, instances and spaces, which both share
    rendering.py      pictures and text

Candidates are padded to K rows, with a mask:

    observation   {"context": (C,), "candidates": (K, F), "mask": (K,)[, "image": ...]}
    action        Discrete(K), the row of a candidate
    info          "action_mask" (K,) bool; "window" after a reset; "elapsed_s" after a step;
                  "outcome" at the end of an episode; "invalid_action" after an infeasible action

The bounds of `context` and `candidates` are the ranges of the spec's features, widened to 0 for
padding. A feature without a limit, such as a duration, has an infinite bound.

Every reset draws a window uniformly from the environment's windows, with the generator that `seed`
began. `reset(options={"window": w})` plays window w; a window is drawn in this case too, so that
the windows of later resets stay the same.

Gymnasium's own tools sample actions without the mask. By default an infeasible action therefore
does nothing: the reward is 0, no time passes, and `info["invalid_action"]` is True. An episode is
truncated after INVALID_LIMIT infeasible actions in a row. With `strict`, an infeasible action
raises InfeasibleChoice.
"""
