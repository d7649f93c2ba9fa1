{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* Made by `python -m charts.generate` from charts/images.tpl. */}}

{{/* The reference of an image: (list $ image name path), with the path of the value for messages. An image is a string, or
     repository, tag and digest. Without a repository it is <global.registry>/<name>, with the digest of that name in
     global.digests, or with global.tag. Images of Slurm daemons also exist in a public registry, those of slinky do not. */}}
{{- define "slinky.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}{{- $name := index . 2 -}}{{- $path := index . 3 -}}
{{- $global := default dict $root.Values.global -}}
{{- $version := $root.Chart.Version | replace "+" "_" -}}
{{- $own := has $name (list "slinky" "completer") -}}
{{- $text := kindIs "string" $image | ternary $image "" -}}
{{- $image = kindIs "map" $image | ternary $image dict -}}
{{- $stated := default $text $image.repository -}}
{{- if and $own $stated (regexMatch "(^|/)slinkyproject/" $stated) -}}
{{- fail (printf "%s names %s, an image of another project, which does not contain slinky. Remove %s from your values and set global.registry. See docs/operator/migration.md" $path $stated $path) -}}
{{- end -}}
{{- if $text -}}
{{- $text -}}
{{- else if and $own (not $stated) (not $global.registry) -}}
{{- fail (printf "%s: no registry is set, and the images of slinky are in no public one. Push them to yours with `make images REGISTRY=registry.example/slinky PUSH=1` and add `--values build/images.yaml`, or set global.registry. See docs/operator/images.md" $path) -}}
{{- else -}}
{{- $repository := default (printf "%s/%s" (default "ghcr.io/slinkyproject" $global.registry | trimSuffix "/") $name) $stated -}}
{{- $tag := $own | ternary $version "26.05-ubuntu26.04" -}}
{{- $digest := default "" $image.digest -}}
{{- if and $global.registry (not $stated) -}}
{{- $tag = default $version $global.tag -}}
{{- if not (or $digest $image.tag) -}}{{- $digest = get (default dict $global.digests) $name -}}{{- end -}}
{{- end -}}
{{- $digest | empty | ternary (printf "%s:%v" $repository (default $tag $image.tag)) (printf "%s@%s" $repository $digest) -}}
{{- end -}}
{{- end -}}
