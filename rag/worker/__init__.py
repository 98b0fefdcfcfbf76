"""A worker takes jobs from a queue (`rag.job_queue.Jobs`) and runs each in a child process.

loop      leases jobs, reports their progress, and ends them: `rag worker`
process   the parent's end of a child process
child     the child: reads jobs from its input, writes progress and results
tasks     what a job does
"""
