# The image of Bursar for machines that have a container engine and reach a registry of images:
#   docker buildx build --platform linux/amd64,linux/arm64 --sbom=true --tag <name> .
# `make image` makes a smaller one without either; docs/how-to/build-the-image.md compares them.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY requirements/build.txt requirements/otel.txt requirements/runtime.txt requirements/
RUN pip install --no-cache-dir --require-hashes --requirement=requirements/build.txt
RUN pip install --no-cache-dir --no-compile --prefix=/install --ignore-installed \
      --no-deps --only-binary=:all: --require-hashes --requirement=requirements/runtime.txt
# EXTRA=otel adds what traces need.
ARG EXTRA=
RUN if [ -n "$EXTRA" ]; then pip install --no-cache-dir --no-compile --prefix=/install \
      --ignore-installed --no-deps --only-binary=:all: --require-hashes \
      --requirement=requirements/$EXTRA.txt; fi
COPY pyproject.toml README.md LICENSE ./
COPY api/crds api/crds
COPY examples examples
COPY src src
RUN pip install --no-cache-dir --no-compile --prefix=/install --ignore-installed \
      --no-deps --no-build-isolation .
RUN python -m compileall -q --invalidation-mode unchecked-hash -s /install -p /usr/local /install

FROM python:3.11-slim-bookworm
RUN pip uninstall --yes --quiet pip setuptools wheel \
    && echo 'bursar:x:65532:' >> /etc/group \
    && echo 'bursar:x:65532:65532::/home/bursar:/sbin/nologin' >> /etc/passwd \
    && mkdir /home/bursar
COPY --from=build /install /usr/local
ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title="bursar" org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /
USER 65532:65532
ENTRYPOINT ["bursar"]
