# One image for both processes and the command: `muster-core`, `muster-operator`, `muster`. `make image` builds it.
# The build does not need BuildKit. BASE can be any image with CPython 3.11 or newer as /usr/local/bin/python.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ARG UV_VERSION=0.13.9
ENV UV_PYTHON_DOWNLOADS=never UV_PYTHON=/usr/local/bin/python UV_LINK_MODE=copy UV_NO_CACHE=1 \
    UV_PROJECT_ENVIRONMENT=/opt/muster
# uv has its own environment, which is not part of the image.
RUN ["/usr/local/bin/python", "-m", "venv", "/opt/uv"]
RUN /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check "uv==${UV_VERSION}"
WORKDIR /src
COPY pyproject.toml uv.lock ./
# Installs the locked versions, verified by their hashes, as wheels only, so no compiler is needed.
RUN ["/opt/uv/bin/uv", "sync", "--frozen", "--no-dev", "--extra", "tracing", "--no-install-project", "--no-build"]
COPY README.md LICENSE ./
COPY proto proto
COPY core core
COPY operator operator
COPY cli cli
RUN ["/opt/uv/bin/uv", "sync", "--frozen", "--no-dev", "--extra", "tracing", "--no-editable"]
# Reduces size and start-up time (see tools/image.py). Then each entry point is started once, which shows missing files.
ENV PYTHONPYCACHEPREFIX=/opt/muster/bytecode
COPY tools/image.py /src/image.py
RUN ["/opt/muster/bin/python", "/src/image.py", "/opt/muster"]
RUN for program in muster muster-core muster-operator; do /opt/muster/bin/$program --help > /dev/null || exit 1; done

FROM ${BASE}
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/muster/bytecode
# A numeric user, so that the kubelet can verify runAsNonRoot.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/opt/muster/bin/muster"]
CMD ["--help"]
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="Muster" \
      org.opencontainers.image.description="A gang scheduler for Kubernetes: operator, scheduler core and command line" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
