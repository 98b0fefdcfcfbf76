# The server with everything it can use. Build: docker build -t rag .
# Run:   docker run -p 127.0.0.1:8000:8000 -e RAG_SERVER_KEYS=… -v ./my-repo:/repositories/my-repo:ro -v rag:/data rag
# Each repository in /repositories is served under the name of its folder.
FROM python:3.13-slim AS build
WORKDIR /src
COPY data/server/requirements.txt data/server/build-requirements.txt ./locked/
# Exactly the packages that `make lock` wrote down, by their hashes.
RUN python -m venv /opt/rag && /opt/rag/bin/pip install --no-cache-dir --require-hashes -r locked/requirements.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r locked/build-requirements.txt
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY rag ./rag
COPY templates ./templates
COPY data ./data
RUN /opt/build/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /dist . \
    && /opt/rag/bin/pip install --no-deps --no-index /dist/*.whl

FROM python:3.13-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 rag \
    && install -d -m 700 -o rag -g rag /data \
    && install -d -o rag -g rag /repositories
COPY --from=build /opt/rag /opt/rag
COPY --chmod=755 data/server/entrypoint.sh /usr/local/bin/rag-entrypoint
# The home folder is where git is told which repositories are safe; /tmp can be written in a read-only container.
ENV PATH=/opt/rag/bin:$PATH RAG_HOME=/data HOME=/tmp PYTHONUNBUFFERED=1 PYTHONSAFEPATH=1
USER 10001
WORKDIR /
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["rag-entrypoint"]
# Beyond loopback the server wants a key: RAG_SERVER_KEYS, or keys.toml in /data.
CMD ["serve", "--host", "0.0.0.0", "--repos", "/repositories"]
