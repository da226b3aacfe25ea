package httpapi

import (
	"context"

	"github.com/towpath/towpath"
)

// BuildPath names the build that a request is about. It is exported because huma sets only such fields.
type BuildPath struct {
	Build towpath.BuildNumber `path:"build" minimum:"1"`
}

type answer[T any] struct{ Body T }

type health struct {
	Waiting string `json:"waiting,omitempty" doc:"why nothing can be decided just now, as a full disk; absent if all is well"`
}

func (a *api) health(context.Context, *struct{}) (*answer[health], error) {
	return &answer[health]{health{a.cfg.Waiting()}}, nil
}

type buildsQuery struct {
	Project    string              `query:"project"`
	Job        string              `query:"job"`
	State      towpath.BuildState  `query:"state" enum:"listing,running,passed,failed,canceled,errored"`
	Unfinished bool                `query:"unfinished"`
	Before     towpath.BuildNumber `query:"before" doc:"only builds older than this"`
	Limit      int                 `query:"limit" minimum:"0" maximum:"1000" doc:"100 if absent"`
}

type buildList struct {
	Builds []towpath.BuildInfo `json:"builds"`
}

func (a *api) builds(ctx context.Context, q *buildsQuery) (*answer[buildList], error) {
	builds, err := a.cfg.Reader.Builds(ctx, towpath.BuildFilter(*q))
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &answer[buildList]{buildList{builds}}, nil
}

func (a *api) build(ctx context.Context, p *BuildPath) (*answer[towpath.BuildInfo], error) {
	b, err := a.cfg.Reader.Build(ctx, p.Build)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &answer[towpath.BuildInfo]{b}, nil
}

func (a *api) job(ctx context.Context, p *BuildPath) (*answer[towpath.Job], error) {
	j, err := a.cfg.Reader.Job(ctx, p.Build)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &answer[towpath.Job]{j}, nil
}

type submission struct {
	Project string              `json:"project"`
	Job     towpath.Job         `json:"job"`
	Only    []towpath.Selection `json:"only,omitempty"`
	By      string              `json:"by,omitempty"`
}

type submitted struct {
	Build towpath.BuildNumber `json:"build"`
}

func (a *api) submit(ctx context.Context, in *struct{ Body submission }) (*answer[submitted], error) {
	s := in.Body
	n, err := a.cfg.Decider.Submit(ctx, s.Project, towpath.Submit{Job: s.Job, Only: s.Only, By: s.By})
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &answer[submitted]{submitted{n}}, nil
}

type cancellation struct {
	By string `json:"by,omitempty" doc:"who asks, for the reason that the build shows"`
}

func (a *api) cancel(ctx context.Context, in *struct {
	BuildPath
	Body cancellation
},
) (*struct{}, error) {
	if err := a.cfg.Decider.Cancel(ctx, in.Build, in.Body.By); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // an answer without a body
}
