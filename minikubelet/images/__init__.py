"""Images: whether a container's image is there, and getting it when it is not.

Owns pull policies, the back-off of failed pulls, rate and concurrency of pulls, and their events.
Never starts containers; `pods` asks `manager.ImageManager.ensure` before it creates one. `name` and
`policy` are pure.
"""
