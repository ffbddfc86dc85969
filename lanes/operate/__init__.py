"""
Operate lanes: the functions behind the `lanes` command and the page.

They take and return records, and print nothing. AWS is behind protocols declared beside their users; `lanes.aws`
implements them.
"""
