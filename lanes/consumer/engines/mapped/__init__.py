"""
The mapped engine: an event source mapping on each lane, and Lambda keeps the limit.

Lambda hands over a batch of one lane. Before each record the engine asks whether a higher lane has a backlog, and
yields through the partial batch response. With one slot or several, it is the same code: alone, an environment has no
peers to publish to and to ask.
"""
