// A finding: message, remedy, and its documentation.

import type { Finding } from "../contract.ts";
import { findingId } from "../state/state.ts";
import { counted, objectTitle } from "../text/format.ts";
import type { Page } from "./page.ts";
import { CopyText, Markdown, SeverityMark } from "./parts.tsx";

/** More names make a card longer than its text. */
const SERVICES_SHOWN_MAX = 20;

export interface FindingText extends Pick<Finding, "code" | "severity" | "object" | "field" | "message" | "remedy"> {
  title?: string;
  documentation?: string;
  services?: string[];
}

/** `isAlone` is true for the finding that the panel is about: it follows the title, and its explanation is open. */
export function FindingCard({ finding, page, isAlone }: { finding: FindingText; page: Page; isAlone?: boolean }) {
  const Heading = isAlone === true ? "h3" : "h4";
  const services = finding.services ?? [];
  return (
    <article class={`finding finding-${finding.severity}`} data-id={findingId(finding)}>
      <header>
        <SeverityMark severity={finding.severity} />
        <Heading>{finding.title ?? objectTitle(finding.object)}</Heading>
        <span class="code">{finding.code}</span>
      </header>
      <p class="finding-message">{finding.message}</p>
      <p class="finding-object">
        {objectTitle(finding.object)}
        {finding.field !== "" && (
          <>
            {" · "}
            <code>{finding.field}</code>
          </>
        )}
      </p>
      {finding.remedy !== "" && (
        <div class="remedy">
          <p class="remedy-title">Remedy</p>
          <CopyText text={finding.remedy} label={`remedy of ${finding.code}`} />
        </div>
      )}
      {services.length > 0 && <ServiceLinks services={services} page={page} />}
      {finding.documentation !== undefined && finding.documentation !== "" && (
        <details class="documentation" open={isAlone}>
          <summary>Explanation</summary>
          <Markdown text={finding.documentation} />
        </details>
      )}
    </article>
  );
}

function ServiceLinks({ services, page }: { services: string[]; page: Page }) {
  const others = services.filter((key) => page.state.selection.kind !== "service" || page.state.selection.key !== key);
  if (others.length === 0) {
    return null;
  }
  return (
    <p class="finding-services">
      Concerns{" "}
      {others.slice(0, SERVICES_SHOWN_MAX).map((key) => (
        <button type="button" class="link" key={key} onClick={() => page.controller.select({ kind: "service", key })}>
          {key}
        </button>
      ))}
      {others.length > SERVICES_SHOWN_MAX && ` and ${counted(others.length - SERVICES_SHOWN_MAX, "further Service")}`}
    </p>
  );
}
