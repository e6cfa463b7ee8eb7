
q1m
e*abc