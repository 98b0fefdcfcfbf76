"""A worker takes jobs from a queue (`rag.job_queue.Jobs`) and runs each in a child process.

loop      leases jobs, reports their progress, and ends them: `rag worker`, `rag index --list-file`
process   the parent's end of a child process
child     the child: reads jobs from its input, writes progress and results
bulk      indexes a list of repositories
cluster   runs jobs on the nodes of a cluster
node      what a node does for that
tasks     what each kind of job does
"""
