# Image of Hindcast and Prefect, for a server, its workers, and single commands:
#
#   docker build -t hindcast --build-arg TORCH_INDEX=URL .
#   docker run --rm -v "$PWD:/data" hindcast hindcast run binpack-synthetic-v1 --out demo
#
# docs/how-to/deploy.md has a server with workers on one machine, on Kubernetes and on Slurm.

FROM python:3.11-slim AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/hindcast
ENV PATH=/opt/hindcast/bin:$PATH

# PyTorch and the other packages change less often than the sources, so they are a layer of their own.
# pip's own index has a large build of PyTorch, with CUDA. The index of CPU builds, whose URL is on
# PyTorch's installation page, makes the image several GB smaller: --build-arg TORCH_INDEX=URL.
ARG TORCH_INDEX=
# Operators need Prefect and training; EXTRAS are more, such as s3,dask.
ARG EXTRAS=s3
COPY constraints.txt pyproject.toml hatch_build.py ./
RUN pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt torch
# Without the sources, what is installed of Hindcast is an empty package with its requirements.
RUN mkdir pipeline policies flows datasets && touch README.md LICENSE hindcast.py py.typed \
 && pip install -c constraints.txt ".[flows,train,$EXTRAS]"

COPY README.md LICENSE hindcast.py py.typed ./
COPY pipeline pipeline
COPY policies policies
COPY flows flows
COPY datasets datasets
RUN pip install --no-deps --force-reinstall .


FROM python:3.11-slim
RUN useradd --create-home --uid 1000 hindcast \
 && mkdir /data && chown hindcast /data
COPY --from=build /opt/hindcast /opt/hindcast
# The deployments name flows by path, so the folder of prefect.yaml and flows/ is in the image too.
WORKDIR /opt/hindcast/deploy
COPY prefect.yaml automations.yaml ./
COPY flows flows
# Compiled kernels and parsed traces are kept in /data, which outlives the container.
ENV PATH=/opt/hindcast/bin:$PATH \
    HINDCAST_CACHE=/data/.cache/hindcast \
    NUMBA_CACHE_DIR=/data/.cache/numba \
    PREFECT_HOME=/data/.prefect \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE=prefect.server.concurrency.lease_storage.filesystem \
    DO_NOT_TRACK=1
USER hindcast
WORKDIR /data
CMD ["hindcast", "--help"]
