"""
Operating lanes: what the command and any other front end call.

Records in and out, nothing printed. What AWS has to do stands behind protocols beside their users; `lanes.aws` keeps
the parts that talk to it.
"""
