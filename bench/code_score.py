"""How well answers fit: NDCG@10, reciprocal rank and recall@10, and how sure a difference is.

A place counts when it is in the file and overlaps the lines that are asked for; where a file is asked for, places of
one file count once. An answer that was given already is none.
"""

import math
import random

DEPTH = 10
DRAWS, SEED = 2000, 7
METRICS = ("NDCG@10", "MRR", "recall@10")


def gains(question, places):
    """For each of the first ten places how many new answers it gives."""
    if question.of_files:
        places = [(path, None, None) for path in dict.fromkeys(path for path, *_ in places)]
    left, found = list(question.answers), []
    for place in places[:DEPTH]:
        new = [answer for answer in left if overlaps(place, answer)]
        left = [answer for answer in left if answer not in new]
        found.append(len(new))
    return found


def overlaps(place, answer):
    (path, first, last), (wanted, begin, end) = place, answer
    return path == wanted and (begin is None or first is not None and first <= end and last >= begin)


def scored(question, places):
    """NDCG@10 (a place is right or wrong), reciprocal rank and recall of the first ten."""
    found = gains(question, places)
    right = [rank for rank, new in enumerate(found) if new]
    # A place that gives several answers leaves fewer to be given by others.
    most = min(len(question.answers), DEPTH) - (sum(found) - len(right))
    ndcg = sum(map(discount, right)) / sum(map(discount, range(most)))
    return ndcg, 1 / (right[0] + 1) if right else 0.0, sum(found) / len(question.answers)


def discount(rank):
    return 1 / math.log2(rank + 2)


def mean(values):
    return sum(values) / len(values) if values else 0.0


def interval(groups):
    """The mean difference over classes of equal weight, with its 95 % interval by a paired bootstrap: within each class
    questions are drawn anew."""
    draw = random.Random(SEED)
    means = sorted(mean([mean(draw.choices(one, k=len(one))) for one in groups]) for _ in range(DRAWS))
    return mean([mean(one) for one in groups]), means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975) - 1]


def check():
    class Two:
        answers, of_files = (("a", 5, 9), ("b", 1, 2)), False

    perfect, second = [("a", 1, 5), ("b", 2, 3)], [("c", 1, 1), ("a", 9, 20), ("a", 9, 20)]
    assert scored(Two, perfect) == (1.0, 1.0, 1.0)
    ndcg, rank, recall = scored(Two, second)
    assert abs(ndcg - 0.63093 / 1.63093) < 1e-4 and (rank, recall) == (0.5, 0.5)
    assert scored(Two, [("a", 10, 11)]) == (0.0, 0.0, 0.0)
