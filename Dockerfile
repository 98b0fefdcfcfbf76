# The server with everything it can use. Build: docker build -t rag .
# Run:   docker run -p 127.0.0.1:8000:8000 -e RAG_SERVER_KEYS=… -v ./my-repo:/repositories/my-repo:ro -v rag:/data rag
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY rag ./rag
COPY templates ./templates
COPY data ./data
RUN python -m venv /opt/rag && /opt/rag/bin/pip install --no-cache-dir ".[server,mcp,redis,postgres]"

FROM python:3.13-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 rag \
    && install -d -o rag -g rag /data /repositories \
    # Mounted repositories belong to somebody else; git would not read them otherwise.
    && git config --system --add safe.directory '*'
COPY --from=build /opt/rag /opt/rag
ENV PATH=/opt/rag/bin:$PATH RAG_HOME=/data PYTHONUNBUFFERED=1
USER 10001
WORKDIR /repositories
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["rag"]
# Beyond loopback the server wants a key: RAG_SERVER_KEYS, or keys.toml in /data.
CMD ["serve", "--host", "0.0.0.0", "--repo", "."]
